"""A lock file that the kernel releases when its process ends; the error names the holder.

That holds for any kind of exit, kill -9 included, and for children that outlive it: no stale lock is left.
"""

import datetime
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import filelock
from pydantic import Field, TypeAdapter

from turnwise.system.files.regular_files import read_bytes

_MAX_BYTES = 4_096
_MAX_PROCESS = 2**31 - 1
"""The largest process id that os.kill accepts (a C int)."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """The process that holds the lock, as written in the lock file."""

    process: Annotated[int, Field(gt=0, le=_MAX_PROCESS)]
    host: str
    since: str


_HOLDER = TypeAdapter(_Holder)


class Lock:
    """An exclusive lock, acquired on construction. ValueError if this or another process holds it."""

    def __init__(self, path: Path) -> None:
        self._lock = filelock.FileLock(path, timeout=0, mode=0o600, thread_local=False, on_acquired=_sign)
        try:
            self._lock.acquire()
        except filelock.Timeout:
            raise ValueError(f"{path.parent} is being written to by {_named(path)}") from None

    def release(self) -> None:
        """Release the lock; idempotent."""
        if self._lock.is_locked:
            os.truncate(self._lock.lock_file, 0)
            self._lock.release()


def _sign(file: int) -> None:
    """Write this process into the lock file."""
    now = f"{datetime.datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}"
    os.ftruncate(file, 0)
    os.pwrite(file, _HOLDER.dump_json(_Holder(os.getpid(), platform.node(), now)) + b"\n", 0)


def is_held(path: Path) -> bool:
    """Whether a live process of this machine holds the lock, by its process id.

    Taking the lock to find out could make a run that starts at that moment fail.
    """
    holder = _holder(path)
    if holder is None or holder.host != platform.node():
        return False
    try:
        os.kill(holder.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists, but belongs to another user
        return True
    return True


def holder_elsewhere(path: Path) -> str:
    """The holder if it is on another machine, else empty; whether it is alive is not visible from here."""
    holder = _holder(path)
    return "" if holder is None or holder.host == platform.node() else _named(path)


def _named(path: Path) -> str:
    holder = _holder(path)
    if holder is None:
        return "another process"
    return f"process {holder.process} on {holder.host} since {holder.since}"


def _holder(path: Path) -> _Holder | None:
    """The holder that the file names; None if the file is empty or cannot be read."""
    try:
        return _HOLDER.validate_json(read_bytes(path, _MAX_BYTES))
    except (OSError, ValueError):
        return None
