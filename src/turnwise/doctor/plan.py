"""A memory plan as a table for people, or as an object for programs."""

from typing import Any

from rich.console import Console
from rich.text import Text

from turnwise.planning import MemoryPlan
from turnwise.runtime.terminal import printable, reason_table


def print_plan(plan: MemoryPlan, console: Console) -> None:
    """Print the plan part by part, and the total against the device's memory."""
    rows = [(part.name, f"{part.num_bytes / 1e9:.2f}", printable(part.why)) for part in plan.parts]
    rows.append(("in all", f"{plan.num_bytes / 1e9:.2f}", verdict(plan)))
    lines = [*reason_table(("held", "GB", "by"), rows, console.width)]
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


def advice(plan: MemoryPlan) -> str:
    """Return what to change first, which depends on the largest part."""
    largest = max(plan.parts, key=lambda part: part.num_bytes).name
    by_part = {
        "activations": "lower update.tokens_per_microbatch, then policy.gradient_checkpointing = true",
        "engine: keys and values": "lower engine.cache_tokens",
        "engine: vLLM": "lower engine.vllm.gpu_memory_utilization, or engine.vllm.sleep = true",
        "optimizer": "policy.tuning = 'lora'",
        "gradients": "policy.tuning = 'lora'",
    }
    default = "model.dtype = 'bfloat16', then model.quantisation = 'nf4', then a smaller model"
    return f"largest is {largest}: {by_part.get(largest, default)}"


def as_json(plan: MemoryPlan) -> dict[str, Any]:
    return {
        "device": plan.device,
        "num_processes": plan.num_processes,
        "num_parameters": plan.num_parameters,
        "parts": {part.name: part.num_bytes for part in plan.parts},
        "num_bytes": plan.num_bytes,
        "free_bytes": plan.memory.free if plan.memory is not None else None,
        "total_bytes": plan.memory.total if plan.memory is not None else None,
    }
