"""Rewards: a weighted sum of named parts, each from 0 to 1, for a finished trajectory."""

import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, cast

from turnwise.rewards import custom
from turnwise.rewards.answer import answer
from turnwise.rewards.environment import environment_part, is_environment_part
from turnwise.rewards.judge import Judge
from turnwise.rewards.outcome import efficiency, is_success, outcome, reached_goal, succeeded
from turnwise.rewards.part import RewardTerm, parts_of
from turnwise.rewards.scorable import check_scorable, why_unscorable, why_unscorable_by
from turnwise.rewards.state import probes, writes
from turnwise.rewards.tools import error_rate, forbidden_tools, format_share, milestones, required_tools
from turnwise.system.python_functions import NOTHING_GIVEN, Given, find_function
from turnwise.types import Reward, Trajectory
from turnwise.types.protocols import RewardDown

__all__ = [
    "DEFAULT",
    "REWARDS",
    "RewardTerm",
    "Rewards",
    "check_scorable",
    "is_success",
    "parts_of",
    "reached_goal",
    "succeeded",
    "why_unscorable",
    "why_unscorable_by",
]

Scorer = Callable[[Trajectory], Awaitable[float]]

REWARDS: Mapping[str, Callable[..., Any]] = {
    "outcome": outcome,
    "answer": answer,
    "writes": writes,
    "probes": probes,
    "required_tools": required_tools,
    "forbidden_tools": forbidden_tools,
    "judge": Judge,
    "milestones": milestones,
    "format": format_share,
    "efficiency": efficiency,
    "error_rate": error_rate,
}
"""Async functions of a trajectory and the options, or classes: built once with the options, then called with
trajectories."""

SHAPING = {"milestones", "format", "efficiency", "error_rate"}
"""Parts that score how an episode went, not whether it succeeded; together they weigh less than a goal."""


DEFAULT = (RewardTerm("outcome"),)
"""Success only: shaping changes what is learned, so the user must ask for it."""


class Rewards:
    """A composed reward; use `async with` or `close` if a part holds connections (a judge)."""

    def __init__(self, parts: Sequence[RewardTerm] = DEFAULT, given: Given = NOTHING_GIVEN) -> None:
        """given: functions that the parts name and that cannot be imported."""
        check_weights(parts)
        self._given = given
        self.parts = tuple(parts)
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self._scorers = {part.name: self._scorer(part) for part in parts}

    async def score(self, trajectory: Trajectory) -> Reward:
        """Return the weighted sum and each part's unweighted value; RewardDown if it cannot be scored."""
        is_lost = any(loss.is_state_lost for loss in trajectory.losses) and not trajectory.stop.is_forfeit
        if trajectory.stop.is_infrastructure or is_lost:
            raise RewardDown(f"episode {trajectory.episode_id!r} was lost to infrastructure")
        values = {name: await scorer(trajectory) for name, scorer in self._scorers.items()}
        assert all(0 <= value <= 1 for value in values.values()), values
        return Reward(math.fsum(part.weight * values[part.name] for part in self.parts), values)

    async def close(self) -> None:
        for closer in self._closers:
            await closer()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _scorer(self, part: RewardTerm) -> Scorer:
        if is_environment_part(part.name):
            check_options(part, environment_part, None, part.name)
            return functools.partial(environment_part, name=part.name)
        is_own = ":" in part.name
        function = find_function(part.name, "reward", self._given) if is_own else REWARDS[part.name]
        scorer: Any
        if inspect.isclass(function):
            check_options(part, function)
            scorer = function(**part.options)
            if hasattr(scorer, "close"):
                self._closers.append(scorer.close)
        else:
            check_options(part, function, None)
            scorer = functools.partial(function, **part.options)
        return custom.guarded(part.name, scorer) if is_own else cast(Scorer, scorer)


def check_weights(parts: Sequence[RewardTerm]) -> None:
    """Raise ValueError unless parts are known, named once, and shaping cannot outweigh a failure.

    Every part is from 0 to 1, so a set of parts changes the total by at most the sum of its absolute weights.
    If that sum is below the weight of `outcome`, any success scores higher than any failure. With `outcome`,
    the user's own functions are not counted: only their author knows whether they decide or shape.
    """
    names = [part.name for part in parts]
    if not parts:
        raise ValueError("a reward needs at least one part")
    for part in parts:
        if ":" not in part.name and part.name not in REWARDS and not is_environment_part(part.name):
            known = f"{', '.join(REWARDS)}, environment.PART and module:function"
            raise ValueError(f"no reward {part.name!r}; there are {known}")
        if names.count(part.name) > 1:
            raise ValueError(f"reward {part.name!r} is given twice")
        if not math.isfinite(part.weight):
            raise ValueError(f"the weight of {part.name!r} must be a finite number, not {part.weight!r}")
    is_whole = "outcome" in names
    goals = [part for part in parts if (part.name == "outcome" if is_whole else part.name not in SHAPING)]
    if not goals:
        raise ValueError(f"{', '.join(names)} only shape a reward: add a part that says whether it was done")
    least = min(goals, key=lambda part: part.weight)
    sizes = [abs(part.weight) for part in parts if part not in goals and ":" not in part.name]
    # The margin covers the rounding error of the sum.
    if least.weight <= math.fsum(sizes) * (1 + 1e-9):
        raise ValueError(
            f"the weight of {least.name!r} is {least.weight:g}; it must be more than 0 and more than the "
            f"other parts together ({' + '.join(f'{size:g}' for size in sizes) or '0'}), "
            "or failing in style could pay more than succeeding"
        )


def check_options(part: RewardTerm, function: Callable[..., Any], *arguments: object) -> None:
    """Raise ValueError unless the function accepts the options."""
    try:
        inspect.signature(function).bind(*arguments, **part.options)
    except TypeError as error:
        raise ValueError(f"reward {part.name!r}: {error}") from error
