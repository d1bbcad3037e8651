"""A lock shared by the benchmarks, so that only one measures at a time on this machine."""

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other benchmark measures, and make others wait; `flock` takes the same lock."""
    with Path(tempfile.gettempdir(), "turnwise-benchmark.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
