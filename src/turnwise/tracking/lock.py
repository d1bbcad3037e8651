"""Takes a path, gives the one lock on it; whoever comes second is told who holds it.

The kernel lets go of it when the process ends, however it ends: no lock is ever left behind.
"""

import datetime
import fcntl
import json
import os
import platform
from pathlib import Path


class Lock:
    """Held from the start; ValueError if another process, or another folder of this one, holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise ValueError(f"{path.parent} is being written to by {_holder(path)}") from None
        now = f"{datetime.datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}"
        holder = {"process": os.getpid(), "host": platform.node(), "since": now}
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, json.dumps(holder).encode() + b"\n", 0)

    def release(self) -> None:
        """Let others have it; doing so again changes nothing."""
        if self._file >= 0:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = -1


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text("utf-8"))
        return f"process {holder['process']} on {holder['host']} since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
