"""Takes a lock that every benchmark here knows: what is timed on this machine is timed by itself."""

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Waits until nobody else times anything, and keeps others waiting; `flock` takes the same lock."""
    with Path(tempfile.gettempdir(), "turnwise-benchmark.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
