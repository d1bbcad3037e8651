"""Memory planning: the bytes that a run of a recipe needs, computed before any weight is loaded."""

from turnwise.planning.memory import (
    MemoryPart,
    MemoryPlan,
    UnsupportedArchitecture,
    check_device_limits,
    check_sft_limits,
    plan_for_recipe,
    plan_memory,
)
from turnwise.planning.outline import load_config

__all__ = [
    "MemoryPart",
    "MemoryPlan",
    "UnsupportedArchitecture",
    "check_device_limits",
    "check_sft_limits",
    "load_config",
    "plan_for_recipe",
    "plan_memory",
]
