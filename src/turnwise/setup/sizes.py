"""The sizes of a run are found once, when it begins; a resumed run keeps them."""

from dataclasses import replace

from turnwise.config import Recipe
from turnwise.models.device_memory import Memory, check_host_memory
from turnwise.setup.memory import (
    UnsupportedArchitecture,
    advice,
    find_sizes,
    memory_for,
    sizes_line,
    step_sizes_line,
)
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.system.ranks import Ranks


def with_sizes(run: ResolvedRun, memory: Memory | None) -> ResolvedRun:
    """The run with all sizes set, and a note about them.

    Another micro-batch would change the order of sums, so a resumed run must not find others. Raises
    ValueError if the smallest sizes do not fit a GPU, or its optimizer the host.
    """
    if not run.recipe.lacks_sizes:
        return run
    try:
        planned = find_sizes(run.recipe, memory)
    except UnsupportedArchitecture as error:
        sized = run.recipe.with_sizes(run.recipe.sizes)
        line = f"{error}; defaults: {step_sizes_line(sized.sizes)}"
    else:
        sized, plan = planned.recipe, planned.plan
        # the plan adds vLLM to an update, but an engine that sleeps has released its memory by then
        is_sleeping = sized.engine.kind == "vllm" and sized.engine.vllm.sleep
        if plan.device == "cuda" and plan.memory is not None and not plan.fits and not is_sleeping:
            raise ValueError(
                f"memory: {plan.num_bytes / 1e9:.1f} GB are needed and {plan.memory.free / 1e9:.1f} GB are "
                f"free; {advice(plan)}"
            )
        if plan.device == "cuda" and plan.host_bytes:
            check_host_memory(plan.host_bytes * plan.num_processes)
        line = sizes_line(plan)
    return replace(run, recipe=sized, sizes_note=f"memory: {line}")


def least_memory(recipe: Recipe, ranks: Ranks) -> Memory | None:
    """The smallest memory of all ranks: they must find the same sizes. None if no size must be found."""
    if not recipe.lacks_sizes:
        return None
    memory = memory_for(recipe.model.device, recipe.hardware.num_processes)
    if memory is None:
        return None
    memories = ranks.exchange(memory)
    hosts = [other.host for other in memories if other.host is not None]
    return Memory(
        min(other.free for other in memories),
        min(other.total for other in memories),
        min(hosts, default=None),
    )
