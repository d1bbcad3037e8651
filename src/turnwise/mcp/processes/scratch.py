"""Fresh scratch directories for server processes, filled from a template and removed afterwards."""

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from turnwise.system.files.tree_removal import remove_tree

logger = logging.getLogger(__name__)

_PREFIX = "turnwise-"
_MARK = ".turnwise-scratch"
"""A file in the root that says that the folder is ours to delete. It is locked as long as its run lives."""
_MAX_MARK_BYTES = 10_000


class Scratch:
    """One directory per run; the directories of killed runs are removed when the next run starts."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self.root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._lock = os.open(self.root / _MARK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        # Runs in other containers see the lock, and the kernel releases it when we are killed. Without its
        # content the mark is invalid, so no other run deletes a folder between these lines.
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.write(self._lock, _mark_of(self.root))

    async def fresh(self, name: str, template: Path | None) -> Path:
        """Create a directory that holds the template's contents, or the template file itself."""
        return await asyncio.to_thread(self._fresh, name, template)

    def _fresh(self, name: str, template: Path | None) -> Path:
        directory = Path(tempfile.mkdtemp(prefix=f"{_safe(name)}-", dir=self.root))
        fill(directory, template)
        return directory

    async def discard(self, directory: Path) -> None:
        await asyncio.to_thread(_remove, directory)

    def close(self) -> None:
        _remove_root(self.root, logging.WARNING)
        os.close(self._lock)


def fill(directory: Path, template: Path | None) -> None:
    """Copy a template folder's contents, or a template file, into a directory."""
    if template is not None and template.is_dir():
        shutil.copytree(template, directory, dirs_exist_ok=True, symlinks=True)
    elif template is not None:
        shutil.copy2(template, directory / template.name)


def episode_path(name: str) -> Path:
    """Return where a server sees `${EPISODE_DIR}`: one path for all episodes and runs, empty outside them."""
    root = Path(tempfile.gettempdir()) / f"turnwise-episodes-{os.getuid()}"
    for folder in (root, root / _safe(name)):
        folder.mkdir(mode=0o700, exist_ok=True)
        if not _is_own_folder(folder):
            raise OSError(f"{folder} belongs to somebody else")
    return root / _safe(name)


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _remove(directory: Path, level: int = logging.WARNING) -> None:
    if reason := remove_tree(directory):
        logger.log(level, "could not remove all of %s: %s", directory, reason)


def _remove_root(root: Path, level: int) -> None:
    """Remove a run's folder, its mark last: a removal that is interrupted is continued by the next run."""
    with contextlib.suppress(OSError):
        for name in os.listdir(root):  # noqa: PTH208 (the names, before anything is removed)
            if name != _MARK:
                _remove(root / name, level)
        if os.listdir(root) == [_MARK]:  # noqa: PTH208
            _remove(root, level)


def _mark_of(root: Path) -> bytes:
    """Return the mark's content. It names the folder: a copy, or a folder that was renamed, is not ours."""
    return b"turnwise deletes " + os.fsencode(root.resolve()) + b"\n"


def _sweep(parent: Path) -> None:
    """Remove the folders of runs that were killed. What cannot be removed is tried again by the next run."""
    for left in parent.glob(f"{_PREFIX}[0-9]*-*"):
        with _claimed(left) as is_ours:
            if is_ours:
                _remove_root(left, logging.DEBUG)


@contextlib.contextmanager
def _claimed(folder: Path) -> Iterator[bool]:
    """Whether a folder has our valid mark and its run is gone; no other run can claim it in the block."""
    try:
        mark = os.open(folder / _MARK, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        yield _is_valid(mark, folder)
    finally:
        os.close(mark)


def _is_valid(mark: int, folder: Path) -> bool:
    try:
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_own = os.fstat(mark).st_uid == os.getuid() and _is_own_folder(folder)
        return is_own and os.read(mark, _MAX_MARK_BYTES) == _mark_of(folder)
    except OSError:  # locked by its run, removed by another sweep, or not a file
        return False


def _is_own_folder(path: Path) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
