"""Takes nothing, gives the memory this process holds now and at most has held, as metrics in GiB."""

import resource
import sys
from pathlib import Path

_GIB = 2**30


def measure() -> dict[str, float]:
    """Resident set and its peak; of CUDA too once something has used it."""
    found = {"memory/peak_gib": _peak() / _GIB}
    statm = Path("/proc/self/statm")
    if statm.exists():  # Linux; elsewhere the peak alone is known
        found["memory/resident_gib"] = int(statm.read_text().split()[1]) * resource.getpagesize() / _GIB
    return found | _cuda()


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes on macOS, KiB elsewhere


def _cuda() -> dict[str, float]:
    torch = sys.modules.get("torch")  # not imported for this: without it there is nothing to measure
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    free, total = torch.cuda.mem_get_info()
    return {
        "memory/cuda_allocated_gib": torch.cuda.memory_allocated() / _GIB,
        "memory/cuda_peak_gib": torch.cuda.max_memory_allocated() / _GIB,
        "memory/cuda_used_fraction": (total - free) / total,
    }
