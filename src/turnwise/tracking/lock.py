"""A lock file that the kernel releases when its process ends; the error names the holder.

The kernel lets go of it when the process ends, however it ends: no lock is ever left behind.
"""

import datetime
import fcntl
import json
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from turnwise.runtime.regular_files import read_bytes

_MAX_BYTES = 4_096
_MAX_PROCESS = 2**31 - 1
"""What the system's calls can take for a process id."""


@dataclass(frozen=True, slots=True)
class _Holder:
    """Whose lock it is."""

    process: Annotated[int, Field(gt=0, le=_MAX_PROCESS)]
    host: str
    since: str


_HOLDER = TypeAdapter(_Holder)


class Lock:
    """Held from the start; ValueError if another process, or another folder of this one, holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise ValueError(f"{path.parent} is being written to by {_named(path)}") from None
        now = f"{datetime.datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}"
        holder = _Holder(os.getpid(), platform.node(), now)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(asdict(holder)).encode() + b"\n", 0)

    def release(self) -> None:
        """Let others have it; doing so again changes nothing."""
        if self._file >= 0:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = -1


def is_held(path: Path) -> bool:
    """Whether a process of this machine has it, without so much as trying it: it may be wanted just now."""
    holder = _holder(path)
    if holder is None or holder.host != platform.node():
        return False
    try:
        os.kill(holder.process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is there, and not ours to signal
        return True
    return True


def holder_elsewhere(path: Path) -> str:
    """The process of another machine that has it, or died with it: from here that cannot be told apart."""
    holder = _holder(path)
    return "" if holder is None or holder.host == platform.node() else _named(path)


def _named(path: Path) -> str:
    holder = _holder(path)
    if holder is None:
        return "another process"
    return f"process {holder.process} on {holder.host} since {holder.since}"


def _holder(path: Path) -> _Holder | None:
    """As it has written itself down; None if that cannot be read."""
    try:
        return _HOLDER.validate_json(read_bytes(path, _MAX_BYTES))
    except (OSError, ValueError):
        return None
