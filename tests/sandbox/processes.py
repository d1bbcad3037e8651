"""Takes a process id, gives the ids of all that descend from it, as the host's /proc shows them."""

from pathlib import Path


def is_of_a_sandbox(pid: int) -> bool:
    """Whether it is an interpreter of one: the zygote, or what it forked."""
    entry = Path(f"/proc/{pid}")
    try:
        is_python = "python" in (entry / "comm").read_text()
        return is_python and b"inside.zygote" in (entry / "cmdline").read_bytes()
    except OSError:
        return False  # ended meanwhile


def descendants(pid: int) -> set[int]:
    """Zombies included: they too would be something left behind."""
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
