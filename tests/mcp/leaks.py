"""What a test must leave as it found it: child processes, file descriptors, tasks, scratch folders."""

import asyncio
import contextlib
import gc
import os
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path


def descendants(pid: int | None = None) -> set[int]:
    """All processes below this one, including zombies."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text()
                parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid or os.getpid()]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def descriptors() -> dict[str, str]:
    """The open descriptors, without the map of compiled kernels that torch opens once on ARM."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[entry.name] = os.readlink(entry)
    kernels = f"/tmp/perf-{os.getpid()}.map"
    return {number: path for number, path in found.items() if path != kernels}


def scratch_folders() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"turnwise-{os.getpid()}-*")}


@contextlib.asynccontextmanager
async def nothing_leaks() -> AsyncIterator[None]:
    """Assert that everything opened inside is gone at the end, or a few seconds later."""
    before = descendants(), descriptors(), asyncio.all_tasks(), scratch_folders()
    yield
    deadline = time.monotonic() + 5
    while True:
        gc.collect()
        left = {
            "processes": descendants() - before[0],
            "descriptors": {fd: to for fd, to in descriptors().items() if fd not in before[1]},
            "tasks": asyncio.all_tasks() - before[2],
            "scratch": scratch_folders() - before[3],
        }
        if not any(left.values()) or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.05)
    assert not any(left.values()), left
