"""Memory planning: the bytes that a run of a recipe needs, computed before any weight is loaded."""

from turnwise.setup.memory.memory import (
    MemoryPart,
    MemoryPlan,
    UnsupportedArchitecture,
    check_device_limits,
    check_sft_limits,
    plan_memory,
)
from turnwise.setup.memory.outline import load_config
from turnwise.setup.memory.plan_text import advice, sizes_line, step_sizes_line
from turnwise.setup.memory.sizing import (
    SizedRecipe,
    find_sizes,
    memory_for,
    plan_for_recipe,
    with_engine_sizes,
)

__all__ = [
    "MemoryPart",
    "MemoryPlan",
    "SizedRecipe",
    "UnsupportedArchitecture",
    "advice",
    "check_device_limits",
    "check_sft_limits",
    "find_sizes",
    "load_config",
    "memory_for",
    "plan_for_recipe",
    "plan_memory",
    "sizes_line",
    "step_sizes_line",
    "with_engine_sizes",
]
