"""Gives server processes fresh directories filled from a template, and takes them away again."""

import asyncio
import logging
import os
import shutil
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
    def note(_function: object, path: str, error: object) -> None:
        logger.warning("could not remove %s: %s", path, error)

    if directory.exists():
        shutil.rmtree(directory, onerror=note)


def _sweep(parent: Path) -> None:
    for left in parent.glob(f"{_PREFIX}[0-9]*-*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not _is_alive(int(pid)) and left.is_dir() and left.stat().st_uid == os.getuid():
            _remove(left)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
