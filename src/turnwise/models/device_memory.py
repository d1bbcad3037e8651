"""The memory of a device, and of the host within the limits of a container or a batch job."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Memory:
    """A device's memory in bytes."""

    free: int
    total: int
    host: int | None = None
    """Free memory of the host for one process of a GPU's run; None: unknown, taken as enough."""


@dataclass(frozen=True, slots=True)
class _GroupFiles:
    """What a version of Linux control groups calls its files; `reclaimable` is a line of `memory.stat`."""

    limit: str
    used: str
    reclaimable: str


_SECOND = _GroupFiles("memory.max", "memory.current", "inactive_file")
_FIRST = _GroupFiles("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def memory_of(device: str) -> Memory:
    """A device's total memory, and how much a process could still allocate."""
    import torch

    if device == "cuda":
        return Memory(*torch.cuda.mem_get_info())
    if device == "mps":  # shared with the CPU: the system recommends how much the GPU may use
        most = torch.mps.recommended_max_memory()
        return Memory(most - torch.mps.driver_allocated_memory(), most)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [*container_limits(), Memory(_free_of_the_machine(total), total)]
    return Memory(min(limit.free for limit in limits), min(limit.total for limit in limits))


def check_host_memory(num_bytes: int) -> None:
    """Raise ValueError if the host has too little free memory for an optimizer that is kept there."""
    free = memory_of("cpu").free
    if num_bytes > free:
        raise ValueError(
            f"optimizer.offload is true: {num_bytes / 1e9:.1f} GB of host memory are needed and "
            f"{free / 1e9:.1f} GB are free; use a smaller model or policy.tuning = 'lora'"
        )


def _free_of_the_machine(total: int) -> int:
    """Free memory, including what the kernel would reclaim."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return total


def container_limits(
    groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")
) -> Iterator[Memory]:
    """The limits of this process's control groups and of all above them, which /proc/meminfo does not show.

    A group without a limit is left out.
    """
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return
    for _, controllers, path in lines:
        if not controllers:
            yield from _limits(groups, path, _SECOND)
        elif "memory" in controllers.split(","):
            yield from _limits(groups / "memory", path, _FIRST)


def _limits(root: Path, path: str, files: _GroupFiles) -> Iterator[Memory]:
    # within a container, the group's own path may be hidden and its files stand at the root
    own = Path(path.lstrip("/"))
    for folder in (root / part for part in (own, *own.parents)):
        try:
            total = int((folder / files.limit).read_text())
            used = int((folder / files.used).read_text())
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # not there, or "max"
            continue
        yield Memory(max(total - used + int(stat.get(files.reclaimable, 0)), 0), total)
