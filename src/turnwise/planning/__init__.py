"""Memory planning: the bytes that a run of a recipe needs, computed before any weight is loaded."""

from turnwise.planning.memory import (
    Part,
    Plan,
    Unplannable,
    check_device_limits,
    check_sft_limits,
    plan_anywhere,
    plan_memory,
)
from turnwise.planning.outline import load_config, why_unreachable

__all__ = [
    "Part",
    "Plan",
    "Unplannable",
    "check_device_limits",
    "check_sft_limits",
    "load_config",
    "plan_anywhere",
    "plan_memory",
    "why_unreachable",
]
