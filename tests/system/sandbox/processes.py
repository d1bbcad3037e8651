"""The descendants of a process, from the host's /proc."""

import os
from pathlib import Path


def is_of_a_sandbox(pid: int) -> bool:
    """Whether it is the zygote of a sandbox, or was forked by it."""
    entry = Path(f"/proc/{pid}")
    try:
        is_python = "python" in (entry / "comm").read_text()
        return is_python and b"inside.zygote" in (entry / "cmdline").read_bytes()
    except OSError:
        return False  # ended meanwhile


def descendants(pid: int) -> set[int]:
    """With zombies: they too would be something left behind."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text("utf-8", "replace")
            except OSError:
                continue  # ended meanwhile
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def status_of(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def is_gone(pid: int) -> bool:
    """Ended, though perhaps not yet waited for."""
    try:
        return "State:\tZ" in status_of(pid)
    except OSError:
        return True


def zygote_pids() -> list[int]:
    """The sandbox interpreters among our descendants whose parent is not one: not the waiting child."""
    pids = [pid for pid in descendants(os.getpid()) if is_of_a_sandbox(pid) and not is_gone(pid)]
    parents = {pid: int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids}
    return [pid for pid in pids if parents[pid] not in pids]
