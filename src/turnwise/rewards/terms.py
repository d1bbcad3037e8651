"""Weighted parts of a reward: `outcome(0.5)` and the like for built-in parts, `weighted` for others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from turnwise.rewards import REWARDS, RewardTerm


@dataclass(frozen=True, slots=True)
class OwnReward:
    """A function of the user's as a part of the reward, with its weight and its options."""

    function: Callable[..., Any]
    weight: float
    options: Mapping[str, Any]


RewardLike = Callable[..., Any] | OwnReward | RewardTerm | str
"""A function of a trajectory, a weighted part such as `outcome(0.5)`, or the name of one."""


class PartMaker(Protocol):
    """Makes a weighted part of a reward; `options` are those of the part, see docs/guides/rewards.md."""

    def __call__(self, weight: float = 1.0, **options: Any) -> RewardTerm: ...


def weighted(part: Callable[..., Any] | str, weight: float = 1.0, **options: Any) -> OwnReward | RewardTerm:
    """A function of your own as a part of the reward; it is called with a trajectory and the options.

    Also a part by its name, such as `environment.speed` for a part of an environment's score.
    """
    return RewardTerm(part, weight, options) if isinstance(part, str) else OwnReward(part, weight, options)


def __getattr__(name: str) -> PartMaker:
    if name not in REWARDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def part(weight: float = 1.0, **options: Any) -> RewardTerm:
        return RewardTerm(name, weight, options)

    part.__name__ = part.__qualname__ = name
    part.__doc__ = REWARDS[name].__doc__
    return part
