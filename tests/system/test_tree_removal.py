"""Trees that servers leave behind are removed, whatever is in them, and nothing outside is touched."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.system.files.tree_removal import remove_tree

AS_USER = """
import os, sys
from pathlib import Path
from turnwise.system.files.tree_removal import remove_tree
os.setgroups([]); os.setgid(65534); os.setuid(65534)
tree = Path(sys.argv[1])
for name in ("read-only", "sealed", "sealed/inside"):
    (tree / name / "below").mkdir(parents=True)
    (tree / name / "file").write_text("x")
for name in ("sealed/inside", "sealed"):
    (tree / name).chmod(0o000)
for name in ("read-only/below", "read-only"):
    (tree / name).chmod(0o555)
print(repr(remove_tree(tree)))
"""


@pytest.fixture
def precious(tmp_path: Path) -> Iterator[Path]:
    """A folder that nothing here may change."""
    folder = tmp_path / "precious"
    folder.mkdir(mode=0o750)
    (folder / "file").write_text("keep")
    yield folder
    assert (folder / "file").read_text() == "keep"
    assert folder.stat().st_mode & 0o777 == 0o750


def test_links_are_removed_and_never_followed(tmp_path: Path, precious: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    (tree / "out").symlink_to(precious)
    (tree / "inner" / "out").symlink_to(precious)
    (tree / "inner" / "loop").symlink_to(".")
    assert remove_tree(tree) == ""
    (tmp_path / "link").symlink_to(precious)
    assert remove_tree(tmp_path / "link") == ""
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_files_of_every_kind_are_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    os.mkfifo(tree / "a" / "fifo")
    (tree / ".removed-x").mkdir()
    (os.fsencode(tree) + b"/\xff\n").decode("utf-8", "surrogateescape")
    Path(os.fsdecode(os.fsencode(tree) + b"/\xff\n")).mkdir()
    (tree / "file").write_text("x")
    assert remove_tree(tree / "file") == ""
    assert remove_tree(tree) == remove_tree(tree) == ""
    assert not tree.exists()


def test_a_tree_deeper_than_the_stack_and_wider_than_the_descriptors_is_removed(deep_folder: Path) -> None:
    """In a process with 64 descriptors, where `shutil.rmtree` ends with RecursionError or EMFILE."""
    code = """
import os, resource, sys
from pathlib import Path
from turnwise.system.files.tree_removal import remove_tree
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
tree = Path(sys.argv[1]); tree.mkdir()
here = os.open(tree, os.O_RDONLY)
for _ in range(1_500):
    os.mkdir("n" * 50, dir_fd=here)
    below = os.open("n" * 50, os.O_RDONLY, dir_fd=here)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=below))
    os.close(here)
    here = below
os.close(here)
for number in range(2_000):
    (tree / f"wide-{number}").touch()
print(repr(remove_tree(tree)))
"""
    tree = deep_folder / "tree"
    run = subprocess.run([sys.executable, "-c", code, tree], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("''\n", "")
    assert not tree.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_a_user_can_remove_folders_without_permissions(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o755)
    place = tmp_path / "place"
    place.mkdir()
    os.chown(place, 65534, 65534)
    run = subprocess.run(
        [sys.executable, "-c", AS_USER, place / "tree"], capture_output=True, text=True, check=False
    )
    assert (run.stdout, run.stderr) == ("''\n", "")
    assert list(place.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("chattr"), reason="only root can do that")
def test_what_cannot_be_removed_is_named_and_the_rest_is_removed(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "immutable").write_text("x")
    (tree / "a" / "other").write_text("x")
    if subprocess.run(["chattr", "+i", tree / "a/b/immutable"], check=False).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        assert remove_tree(tree) == "'immutable': Operation not permitted"
        assert remove_tree(tree) == "'immutable': Operation not permitted", "a second time does no harm"
        assert [path.name for path in tree.rglob("*") if path.is_file()] == ["immutable"]
    finally:
        subprocess.run(["chattr", "-R", "-i", tree], check=True)
    assert remove_tree(tree) == ""
    assert not tree.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_mounted_folder_is_left_alone(tmp_path: Path, precious: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "mounted").mkdir(parents=True)
    (tree / "mounted").mkdir()
    remove = (
        "import sys; from pathlib import Path; from turnwise.system.files.tree_removal import remove_tree; "
        "print(remove_tree(Path(sys.argv[1])))"
    )
    mounts = [f"mount --bind {precious} {tree / place}" for place in ("mounted", "a/mounted")]
    code = " && ".join([*mounts, f"{sys.executable} -c '{remove}' {tree}"])
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", code], capture_output=True, text=True, check=False
    )
    if "unshare" in run.stderr or "mount:" in run.stderr:
        pytest.skip("no mount namespace here")
    assert "Device or resource busy" in run.stdout
    assert remove_tree(tree) == ""


def test_a_tree_is_removed_where_proc_is_not_mounted(tmp_path: Path) -> None:
    (tmp_path / "tree" / "below").mkdir(parents=True)
    code = (
        "import sys; from pathlib import Path; from turnwise.system.files.tree_removal import remove_tree;"
        "print(repr(remove_tree(Path(sys.argv[1]))))"
    )
    hide = 'mount -t tmpfs tmpfs /proc && exec "$0" -c "$@"'
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", "--mount", *as_root, "sh", "-c", hide, sys.executable, code, str(tmp_path / "tree")]
    assert subprocess.check_output(command, text=True) == "''\n"
    assert not (tmp_path / "tree").exists()
