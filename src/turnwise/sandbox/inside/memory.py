"""How much memory the processes of one execution use together, as /proc shows it."""

import os
from dataclasses import dataclass

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MINOR_FAULTS = 9 - 2
"""Of the fields of /proc/PID/stat behind the command's name, which is the second."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """One process's memory."""

    total_bytes: int
    """Of its address space."""
    private_bytes: int
    """Resident and not of a file; after a fork also what it still shares with its parent."""


def memory_of(pid: int | str) -> ProcessMemory:
    """Zero for a process that has ended."""
    words = _read(f"/proc/{pid}/statm").split()
    if not words:
        return ProcessMemory(0, 0)
    total, resident, shared = map(int, words[:3])
    return ProcessMemory(total * _PAGE_BYTES, (resident - shared) * _PAGE_BYTES)


def bytes_together(pids: list[str], base: ProcessMemory) -> int:
    """What these processes, all forked from one of size `base`, have allocated beyond it.

    A process that writes to a page of the base gets a copy of it, which its size does not show. Its page
    faults bound the number of copies. The base is left out once, for the first process.
    """
    found = sum(max(0, memory_of(pid).private_bytes - base.private_bytes) for pid in pids)
    if len(pids) < 2:
        return found
    copied = sum(min(base.private_bytes, _fault_bytes(pid)) for pid in pids)
    return found + max(0, copied - base.private_bytes)


def _fault_bytes(pid: str) -> int:
    words = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(words[_MINOR_FAULTS]) * _PAGE_BYTES if words else 0


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 (called every tick)
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it ended between the listing and now
