"""Gives server processes fresh directories filled from a template, and takes them away again."""

import asyncio
import logging
import os
import shutil
import stat
import tempfile
from pathlib import Path

logger = logging.getLogger(__name__)

_PREFIX = "turnwise-"


class Scratch:
    """One directory per run of ours; what a killed run left behind is swept when the next one starts."""

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        self._root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))

    async def fresh(self, name: str, template: Path | None) -> Path:
        """A new directory, with the template's contents (or the template file itself) in it."""
        return await asyncio.to_thread(self._fresh, name, template)

    def _fresh(self, name: str, template: Path | None) -> Path:
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._root))
        if template is not None and template.is_dir():
            shutil.copytree(template, directory, dirs_exist_ok=True, symlinks=True)
        elif template is not None:
            shutil.copy2(template, directory / template.name)
        return directory

    async def discard(self, directory: Path) -> None:
        await asyncio.to_thread(_remove, directory)

    def close(self) -> None:
        _remove(self._root)


def _remove(directory: Path) -> None:
    # Errors are passed over, so that one file in the way keeps no others: two runs may sweep at once.
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        logger.warning("could not remove all of %s", directory)


def _sweep(parent: Path) -> None:
    for left in parent.glob(f"{_PREFIX}[0-9]*-*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)) and _is_own_folder(left):
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
