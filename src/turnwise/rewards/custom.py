"""Check what a user's own reward function returns."""

import inspect
from collections.abc import Awaitable, Callable
from numbers import Real
from typing import Any

from turnwise.types import Trajectory
from turnwise.types.protocols import RewardDown


def guarded(name: str, function: Callable[[Trajectory], Any]) -> Callable[[Trajectory], Awaitable[float]]:
    """Wrap the user's function, plain or async; its exceptions become RuntimeErrors that name it."""

    async def score(trajectory: Trajectory) -> float:
        try:
            value = function(trajectory)
            if inspect.isawaitable(value):
                value = await value
        except RewardDown:
            raise
        except Exception as error:
            raise RuntimeError(f"reward {name!r} failed on {trajectory.task.id!r}: {_said(error)}") from error
        if not isinstance(value, Real) or not 0 <= float(value) <= 1:
            raise RuntimeError(
                f"reward {name!r} gave {value!r} on {trajectory.task.id!r}: it must be a number from 0 to 1"
            )
        return float(value)

    return score


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
