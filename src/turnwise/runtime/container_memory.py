"""Memory limits of a container or a batch job, which /proc/meminfo does not show: Linux control groups."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a control group in bytes, and how much of it is free, with what the kernel would reclaim."""

    free: int
    total: int


@dataclass(frozen=True, slots=True)
class _Files:
    """The names of a version's files; the last is a line of `memory.stat`."""

    limit: str
    used: str
    reclaimable: str


_SECOND = _Files("memory.max", "memory.current", "inactive_file")
_FIRST = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def container_limits(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[Limit]:
    """The limits of this process's groups and of all above them; a group without one is left out."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in lines:
        if not controllers:
            yield from _limits(groups, path, _SECOND)
        elif "memory" in controllers.split(","):
            yield from _limits(groups / "memory", path, _FIRST)


def _limits(root: Path, path: str, files: _Files) -> Iterator[Limit]:
    # within a container, the group's own path may be hidden and its files stand at the root
    own = Path(path.lstrip("/"))
    for folder in (root / part for part in (own, *own.parents)):
        try:
            total = int((folder / files.limit).read_text())
            used = int((folder / files.used).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # not there, or "max"
            continue
        yield Limit(max(total - used + int(stat.get(files.reclaimable, 0)), 0), total)
