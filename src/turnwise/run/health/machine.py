"""The current and peak memory of this process, as metrics in GiB."""

import resource
import sys
from pathlib import Path
from typing import Any

_GIB = 2**30


def measure() -> dict[str, float]:
    """The resident set and its peak, CUDA memory if CUDA is in use, and MPS memory."""
    figures = {"memory/peak_gib": _peak() / _GIB}
    statm = Path("/proc/self/statm")
    if statm.exists():  # Linux; elsewhere only the peak is known
        figures["memory/resident_gib"] = int(statm.read_text().split()[1]) * resource.getpagesize() / _GIB
    torch = sys.modules.get("torch")  # not imported for this: without torch there is nothing to measure
    return figures if torch is None else figures | cuda_memory(torch) | mps_memory(torch)


def _peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes on macOS, KiB elsewhere


def cuda_memory(torch: Any) -> dict[str, float]:
    if not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    free, total = torch.cuda.mem_get_info()
    return {
        "memory/cuda_allocated_gib": torch.cuda.memory_allocated() / _GIB,
        "memory/cuda_peak_gib": torch.cuda.max_memory_allocated() / _GIB,
        "memory/cuda_used_fraction": (total - free) / total,
    }


def mps_memory(torch: Any) -> dict[str, float]:
    """The memory of tensors, and all memory that the Metal driver gave this process, including caches."""
    if not torch.backends.mps.is_available():
        return {}
    return {
        "memory/mps_allocated_gib": torch.mps.current_allocated_memory() / _GIB,
        "memory/mps_driver_gib": torch.mps.driver_allocated_memory() / _GIB,
    }
