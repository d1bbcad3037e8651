"""Fresh directories for server processes: copied from a template, separate, and removed in time."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.mcp.processes.scratch import Scratch

# Makes a Scratch with one directory in it, prints its path, and waits to be killed.
LEFT_BEHIND = """
import asyncio, sys
from turnwise.mcp.processes.scratch import Scratch
print(asyncio.run(Scratch().fresh("srv", None)), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(deep_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of this test, so that no other is swept."""
    folder = deep_folder / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def scratch(temporary: Path) -> Iterator[Scratch]:
    made = Scratch()
    yield made
    made.close()
    assert not made.root.exists()


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A folder that nothing here may change."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "file").write_text("keep")
    yield folder
    assert (folder / "file").read_text() == "keep"


def ended_process() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


async def test_directories_are_separate_empty_and_private(scratch: Scratch, temporary: Path) -> None:
    one, two = await scratch.fresh("srv", None), await scratch.fresh("srv", None)
    assert one != two
    assert list(one.iterdir()) == []
    assert one.parent.parent == temporary
    assert one.parent.stat().st_mode & 0o777 == 0o700


async def test_a_template_folder_is_copied_with_its_links(scratch: Scratch, tmp_path: Path) -> None:
    template = tmp_path / "template"
    (template / "sub").mkdir(parents=True)
    (template / "sub" / "db.txt").write_text("original")
    (template / "link").symlink_to("sub/db.txt")
    (template / "dangling").symlink_to("gone")
    one, two = await scratch.fresh("srv", template), await scratch.fresh("srv", template)
    (one / "sub" / "db.txt").write_text("changed")
    assert (two / "sub" / "db.txt").read_text() == "original"
    assert (template / "sub" / "db.txt").read_text() == "original"
    assert (one / "link").read_text() == "changed", "the link leads to the copy, not to the template"
    assert (one / "dangling").is_symlink()
    await scratch.discard(one)
    assert (template / "sub" / "db.txt").exists()


async def test_a_template_file_is_copied_under_its_own_name(scratch: Scratch, tmp_path: Path) -> None:
    (tmp_path / "seed.sqlite").write_bytes(b"\x00data")
    directory = await scratch.fresh("srv", tmp_path / "seed.sqlite")
    assert [path.name for path in directory.iterdir()] == ["seed.sqlite"]
    assert (directory / "seed.sqlite").read_bytes() == b"\x00data"


async def test_removing_a_directory_never_follows_a_link_out_of_it(scratch: Scratch, precious: Path) -> None:
    directory = await scratch.fresh("srv", None)
    (directory / "out").symlink_to(precious)
    for _ in range(2):  # a second time does no harm
        await scratch.discard(directory)
        assert not directory.exists()


@pytest.mark.parametrize("name", ["a b", "../x", "io.github/x", "-x", "/etc"])
async def test_the_name_of_a_server_cannot_lead_out_of_the_folder(scratch: Scratch, name: str) -> None:
    made = await scratch.fresh(name, None)
    assert made.parent == scratch.root
    assert made.is_dir()


def test_the_folder_of_a_killed_run_is_swept_and_that_of_a_running_one_is_not(temporary: Path) -> None:
    command = [sys.executable, "-c", LEFT_BEHIND]
    runs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    with runs[0] as killed, runs[1] as running:
        assert killed.stdout is not None
        assert running.stdout is not None
        left, used = (Path(run.stdout.readline().strip()) for run in (killed, running) if run.stdout)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.exists()
        Scratch().close()
        assert not left.parent.exists()
        assert used.exists()
        running.kill()


def left_behind(parent: Path, num_runs: int = 1) -> list[Path]:
    """The folders of runs that were killed at the same time, with one directory in each."""
    command = [sys.executable, "-c", LEFT_BEHIND]
    with contextlib.ExitStack() as exits:
        runs = [
            exits.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(num_runs)
        ]
        left = [Path(run.stdout.readline().strip()).parent for run in runs if run.stdout]
        for run in runs:
            run.kill()
    assert {folder.parent for folder in left} == {parent}
    return left


@pytest.mark.parametrize("name", ["turnwise-2024-results", "turnwise-{dead}-results", "turnwise-{dead}-a"])
def test_a_folder_of_the_user_is_never_swept_whatever_its_name(temporary: Path, name: str) -> None:
    theirs = temporary / name.format(dead=ended_process())
    (theirs / "deep").mkdir(parents=True)
    (theirs / ".lock").touch()
    Scratch().close()
    assert (theirs / "deep").is_dir()


def test_a_mark_is_valid_only_in_the_folder_that_it_was_written_for(
    temporary: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [left] = left_behind(temporary)
    kept = [temporary / "turnwise-7-renamed", temporary / "turnwise-7-copied"]
    for folder in kept:
        shutil.copytree(left, folder)
    for name in ("turnwise-7-emptied", "turnwise-7-fifo", "turnwise-7-linked"):
        kept.append(temporary / name)
        kept[-1].mkdir()
    (kept[2] / ".turnwise-scratch").touch()
    os.mkfifo(kept[3] / ".turnwise-scratch")
    (kept[4] / ".turnwise-scratch").symlink_to(left / ".turnwise-scratch")
    (temporary / "turnwise-7-link").symlink_to(precious)
    (temporary / "turnwise-7-file").write_text("a file, not a folder")
    Scratch().close()
    assert all(folder.is_dir() for folder in kept)
    assert not left.exists()


def test_several_runs_may_start_and_sweep_at_once(temporary: Path) -> None:
    for folder in left_behind(temporary, num_runs=3):
        for number in range(100):
            (folder / f"srv-{number}" / "deep").mkdir(parents=True)
    code = "from turnwise.mcp.processes.scratch import Scratch; Scratch().close()"
    runs = [
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for run in runs:
        assert run.communicate() == (None, "")
        assert run.returncode == 0
    Scratch().close()  # a sweep skips a folder that another one is removing
    assert list(temporary.iterdir()) == []


async def test_a_tree_too_deep_for_any_path_is_removed(scratch: Scratch) -> None:
    directory = await scratch.fresh("srv", None)
    nested(directory, 1_500, "n" * 100)
    await scratch.discard(directory)
    assert not directory.exists()


def test_a_deep_tree_that_a_killed_run_left_is_swept(temporary: Path) -> None:
    [left] = left_behind(temporary)
    nested(next(left.glob("srv-*")), 1_500, "n")
    Scratch().close()
    assert not left.exists()


def nested(folder: Path, num_levels: int, name: str) -> None:
    """Create folders inside each other, as a server does that is asked for one more each time."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(num_levels):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
