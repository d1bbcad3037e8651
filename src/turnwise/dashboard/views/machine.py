"""The machine of a run: the newest figures of its GPU and memory, and the space left for its folder."""

import os
from pathlib import Path
from statistics import fmean
from typing import Any

from turnwise.dashboard.index.index import Index
from turnwise.dashboard.views.series import last_step, latest, names, series

_FIGURES = (
    *("gpu/utilization", "gpu/temperature_celsius", "gpu/power_watts"),
    *("memory/cuda_used_fraction", "memory/cuda_allocated_gib", "memory/cuda_peak_gib"),
    *("memory/mps_allocated_gib", "memory/mps_driver_gib"),
    *("memory/resident_gib", "memory/peak_gib"),
)

NUM_STEPS = 10
"""The idle share and the time by phase are means over this number of steps: one step may be unusual."""


def machine(index: Index) -> dict[str, Any]:
    """The newest value of each figure that is logged, `gpu_idle` and `phases` as shares, and `disk`."""
    newest = last_step(index)
    logged = names(index)
    figures = latest(index, [name for name in _FIGURES if name in logged])
    first = max(0, (newest or 0) - NUM_STEPS + 1)
    times = [name for name in logged if name.startswith("time/")]
    means = {
        name: fmean(values)
        for name, line in series(index, ["gpu/utilization", *times], first=first).items()
        if (values := [value for value in line["values"] if value is not None])
    }
    used, total = means.pop("gpu/utilization", None), sum(means.values())
    return {
        "step": newest,
        "figures": figures,
        "gpu_idle": None if used is None else 1 - used,
        "phases": {name: value / total for name, value in means.items()} if total > 0 else {},
        "disk": _disk(index.run),
    }


def _disk(folder: Path) -> dict[str, int] | None:
    """The bytes left where the folder is, and the bytes of that file system; None if nobody can say."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return {"free_bytes": disk.f_bavail * disk.f_frsize, "total_bytes": disk.f_blocks * disk.f_frsize}
