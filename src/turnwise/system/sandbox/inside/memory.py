"""How much memory the processes of one execution use together, as /proc shows it."""

import os
from dataclasses import dataclass

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MINOR_FAULTS = 9 - 2
"""Index among the fields of /proc/PID/stat that follow the command's name, which is the second field."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The memory of one process."""

    total_bytes: int
    """The size of its address space."""
    private_bytes: int
    """Resident and not backed by a file; after a fork it includes what is still shared with the parent."""


def memory_of(pid: int | str) -> ProcessMemory:
    """Return the memory of a process; zero if it has ended."""
    words = _read(f"/proc/{pid}/statm").split()
    if not words:
        return ProcessMemory(0, 0)
    total, resident, shared = map(int, words[:3])
    return ProcessMemory(total * _PAGE_BYTES, (resident - shared) * _PAGE_BYTES)


def bytes_together(pids: list[str], base: ProcessMemory) -> int:
    """Return the bytes that these processes, all forked from one of size `base`, have allocated beyond it.

    A process that writes to a page of the base gets a copy of it, which its size does not show. Its page
    faults bound the number of copies. Copies up to the size of one base do not count: the first process may
    have them.
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
        return ""  # it has ended since it was listed
