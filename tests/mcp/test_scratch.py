"""Fresh directories for server processes: filled from a template, apart from each other, and gone in time."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from turnwise.mcp.scratch import Scratch

# Makes a Scratch with one directory in it, says where, and waits to be killed.
LEFT_BEHIND = """
import asyncio, sys
from pathlib import Path
from turnwise.mcp.scratch import Scratch
print(asyncio.run(Scratch().fresh("srv", None)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of this test's own, so that nothing else's is swept or seen."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def fresh(scratch: Scratch, template: Path | None = None, name: str = "srv") -> Path:
    return asyncio.run(scratch.fresh(name, template))


def started_process() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", LEFT_BEHIND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def finish(process: subprocess.Popen[str]) -> None:
    with process:
        process.kill()


def test_each_directory_is_empty_and_readable_only_by_us(temporary: Path) -> None:
    scratch = Scratch()
    one, two = fresh(scratch), fresh(scratch)
    assert one != two
    assert list(one.iterdir()) == []
    assert one.parent.parent == temporary
    assert one.parent.stat().st_mode & 0o777 == 0o700
    scratch.close()
    assert list(temporary.iterdir()) == []


def test_a_template_folder_is_copied_with_its_links_and_never_shared(temporary: Path, tmp_path: Path) -> None:
    template = tmp_path / "template"
    (template / "sub").mkdir(parents=True)
    (template / "sub" / "db.txt").write_text("original")
    (template / "link").symlink_to("sub/db.txt")
    (template / "dangling").symlink_to("gone")
    scratch = Scratch()
    one, two = fresh(scratch, template), fresh(scratch, template)
    (one / "sub" / "db.txt").write_text("changed")
    assert (two / "sub" / "db.txt").read_text() == "original"
    assert (template / "sub" / "db.txt").read_text() == "original"
    assert (one / "link").read_text() == "changed", "the link leads to the copy, not to the template"
    assert (one / "dangling").is_symlink()
    scratch.close()
    assert (template / "sub" / "db.txt").exists()


def test_a_template_file_is_copied_under_its_own_name(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "seed.sqlite").write_bytes(b"\x00data")
    scratch = Scratch()
    directory = fresh(scratch, tmp_path / "seed.sqlite")
    assert [path.name for path in directory.iterdir()] == ["seed.sqlite"]
    assert (directory / "seed.sqlite").read_bytes() == b"\x00data"
    scratch.close()


def test_removing_a_directory_never_follows_a_link_out_of_it(temporary: Path, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("keep")
    scratch = Scratch()
    directory = fresh(scratch)
    (directory / "out").symlink_to(outside)
    asyncio.run(scratch.discard(directory))
    assert not directory.exists()
    assert (outside / "file").read_text() == "keep"
    asyncio.run(scratch.discard(directory))  # once more does no harm
    scratch.close()


def test_what_a_killed_run_left_is_swept_and_what_a_living_one_uses_is_not(temporary: Path) -> None:
    killed, left = started_process()
    living, used = started_process()
    try:
        assert left.parent.parent == temporary
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.exists()
        scratch = Scratch()
        assert not left.parent.exists()
        assert used.exists()
        scratch.close()
        assert used.exists()
    finally:
        finish(killed)
        finish(living)


def test_the_sweep_touches_nothing_that_is_not_a_run_of_ours(temporary: Path, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    dead = int(finished.stdout)
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("keep")
    (temporary / f"turnwise-{dead}-link").symlink_to(outside)
    kept = ["turnwise-notes", "turnwise-12x-a", f"other-{dead}-a", f"turnwise-{os.getpid()}-mine"]
    for name in kept:
        (temporary / name).mkdir()
    (temporary / f"turnwise-{dead}-file").write_text("a file, not a folder")
    scratch = Scratch()
    for name in kept:
        assert (temporary / name).is_dir()
    assert (outside / "file").read_text() == "keep"
    scratch.close()


def test_many_runs_may_start_and_sweep_at_once(temporary: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    for number in range(300):
        (temporary / f"turnwise-{int(finished.stdout)}-{number}" / "deep").mkdir(parents=True)
    code = "from turnwise.mcp.scratch import Scratch; Scratch().close()"
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for run in runs:
        assert run.communicate() == (None, "")
        assert run.returncode == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("name", ["a b", "../x", "io.github/x", "-x", "/etc"])
async def test_a_servers_name_cannot_lead_out_of_the_folder(name: str) -> None:
    scratch = Scratch()
    try:
        made = await scratch.fresh(name, None)
        assert made.parent == scratch._root
        assert made.is_dir()
    finally:
        scratch.close()


def test_a_run_in_another_container_is_known_by_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    theirs = Scratch()
    # As seen from here its process does not exist: pids are another container's.
    foreign = tmp_path / f"turnwise-{2**22 + 7}-abc"
    theirs._root.rename(foreign)
    theirs._root = foreign
    Scratch().close()
    assert foreign.exists()
    theirs.close()
    foreign.mkdir()
    Scratch().close()
    assert not foreign.exists()
