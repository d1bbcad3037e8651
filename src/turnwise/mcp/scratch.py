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
from pathlib import Path

logger = logging.getLogger(__name__)

_PREFIX = "turnwise-"
_LOCK = ".lock"


class Scratch:
    """One directory per run; the directories of killed runs are removed when the next run starts."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self._root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        # Held while we live; runs in other containers see it. The kernel releases it when we are killed.
        self._lock = os.open(self._root / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    async def fresh(self, name: str, template: Path | None) -> Path:
        """Create a directory that holds the template's contents, or the template file itself."""
        return await asyncio.to_thread(self._fresh, name, template)

    def _fresh(self, name: str, template: Path | None) -> Path:
        directory = Path(tempfile.mkdtemp(prefix=f"{_safe(name)}-", dir=self._root))
        fill(directory, template)
        return directory

    async def discard(self, directory: Path) -> None:
        await asyncio.to_thread(_remove, directory)

    def close(self) -> None:
        _remove(self._root)
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


def _remove(directory: Path) -> None:
    # Errors are ignored, so that one failure does not keep the other files: two runs may sweep at once.
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        _make_writable(directory)  # a server, or the kernel's overlay, made a folder without permissions
        shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        logger.warning("could not remove all of %s", directory)


def _make_writable(directory: Path) -> None:
    with contextlib.suppress(OSError):
        directory.chmod(0o700)
        for entry in os.scandir(directory):
            if entry.is_dir(follow_symlinks=False):
                _make_writable(Path(entry.path))


def _sweep(parent: Path) -> None:
    for left in parent.glob(f"{_PREFIX}[0-9]*-*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        # The pid protects a run that is just starting, the lock protects one in another container.
        if pid.isdigit() and not _is_alive(int(pid)) and _is_own_folder(left) and not _is_locked(left):
            _remove(left)


def _is_own_folder(path: Path) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_locked(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False
