"""One part of a reward, as a recipe names it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnwise.config import RewardConfig


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """One part of a reward: its name in REWARDS or `module:function`, its weight and its options."""

    name: str
    weight: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)


def parts_of(rewards: Sequence[RewardConfig]) -> list[RewardTerm]:
    return [RewardTerm(part.name, part.weight, part.options) for part in rewards]
