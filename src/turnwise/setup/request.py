"""What somebody asks for in Python, as keys of a recipe: functions become names, objects become values."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from turnwise.rewards import RewardTerm
from turnwise.rewards.terms import OwnReward, RewardLike
from turnwise.system.python_functions import Given, function_name, is_given


def plain_values(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as a recipe stores them; ValueError for a value that it cannot."""
    return {key: _plain(value, key) for key, value in settings.items()}


def reward_blocks(
    rewards: Iterable[RewardLike], given: dict[str, Callable[..., Any]]
) -> list[dict[str, Any]]:
    """Return the parts as the recipe's [[rewards]]; functions that cannot be imported go into `given`."""
    blocks = []
    for reward in rewards:
        if isinstance(reward, str):
            term = RewardTerm(reward)
        elif isinstance(reward, RewardTerm):
            term = reward
        elif isinstance(reward, OwnReward):
            term = RewardTerm(named(reward.function, given), reward.weight, reward.options)
        else:
            term = RewardTerm(named(reward, given))
        blocks.append({"name": term.name, "weight": term.weight, "options": dict(term.options)})
    return blocks


def named(function: Callable[..., Any], given: dict[str, Callable[..., Any]]) -> str:
    """Return the function's name in a recipe; one that cannot be imported is added to `given`."""
    if not callable(function):
        raise ValueError(f"expected a function, got {function!r}")
    name = function_name(function, given)
    if is_given(name):
        given[name] = function
    return name


def given_functions(functions: Iterable[Callable[..., Any]]) -> Given:
    """Return the functions of these that cannot be imported, by their names in a recipe."""
    given: dict[str, Callable[..., Any]] = {}
    for function in functions:
        named(function, given)
    return given


def _plain(value: Any, key: str) -> Any:
    match value:
        case bool() | int() | float():
            return value
        case str() | Path():
            return str(value)
        case Mapping():
            return {str(name): _plain(inner, key) for name, inner in value.items()}
        case list() | tuple():
            return [_plain(item, key) for item in value]
        case None:
            raise ValueError(f"settings: {key} is None: leave the key out to keep its default")
    if callable(value) and not is_given(name := function_name(value)):
        return name
    raise ValueError(f"settings: {key} is {value!r}, which a recipe cannot store")
