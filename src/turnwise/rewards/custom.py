"""Load and check a user's own reward function, given as `module:function`."""

import importlib
import inspect
from collections.abc import Awaitable, Callable
from functools import reduce
from numbers import Real
from typing import Any

from turnwise.protocols import RewardDown
from turnwise.types import Trajectory


def load(name: str) -> Callable[..., Any]:
    """Return the function that `module:function` names; ValueError if it cannot be imported or called."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise ValueError(f"reward {name!r}: write it as module:function")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(f"reward {name!r}: {module_name} cannot be imported: {_said(error)}") from error
    try:
        found = reduce(getattr, path.split("."), module)
    except AttributeError as error:
        raise ValueError(f"reward {name!r}: {error}") from error
    if not callable(found):
        raise ValueError(f"reward {name!r} is a {type(found).__name__}, not a function")
    return found


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
