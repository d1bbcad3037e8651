"""A memory plan as a table for people, or as an object for programs."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from turnwise.setup.memory import MemoryPlan, advice, sizes_line
from turnwise.system.terminal import printable, reason_table


def print_plan(plan: MemoryPlan, console: Console) -> None:
    """Print the plan part by part, and the total against the device's memory."""
    rows = [(part.name, f"{part.num_bytes / 1e9:.2f}", printable(part.why)) for part in plan.parts]
    rows.append(("in all", f"{plan.num_bytes / 1e9:.2f}", verdict(plan)))
    lines = [*reason_table(("held", "GB", "by"), rows, console.width), sizes_line(plan)]
    if plan.memory is not None and not plan.fits:
        lines.append(advice(plan))
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def verdict(plan: MemoryPlan) -> str:
    if plan.memory is None:
        return f"{plan.device} is not on this machine: --memory GB says what it has"
    fits = "fits" if plan.fits else "does not fit"
    if plan.num_processes > 1:
        fits = f"each of {plan.num_processes} processes {fits}"
    return f"{plan.device}: {fits}, {plan.memory.free / 1e9:.1f} GB of {plan.memory.total / 1e9:.1f} free"


def as_json(plan: MemoryPlan) -> dict[str, Any]:
    return {
        "device": plan.device,
        "num_processes": plan.num_processes,
        "num_parameters": plan.num_parameters,
        "parts": {part.name: part.num_bytes for part in plan.parts},
        "num_bytes": plan.num_bytes,
        "sizes": asdict(plan.sizes),
        "free_bytes": plan.memory.free if plan.memory is not None else None,
        "total_bytes": plan.memory.total if plan.memory is not None else None,
    }
