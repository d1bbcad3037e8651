"""Recipe keys given in Python, as the overrides that `--set` takes: both get the same checks and messages."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from turnwise.rewards import RewardTerm
from turnwise.rewards.terms import OwnReward, RewardLike
from turnwise.system.python_functions import Given, function_name, is_given


def as_overrides(settings: Mapping[str, Any]) -> list[str]:
    """Return `{"run.num_steps": 4}` as `["run.num_steps=4"]`; ValueError for a value TOML cannot hold."""
    return [f"{key}={_toml(value, key)}" for key, value in settings.items()]


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


def _toml(value: Any, key: str) -> str:  # noqa: PLR0911 (one per type)
    """Return the value as TOML, which the recipe is written in."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return repr(value) if math.isfinite(value) else str(value)
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False)
        case Mapping():
            pairs = (f"{json.dumps(str(name))} = {_toml(inner, key)}" for name, inner in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list() | tuple():
            return f"[{', '.join(_toml(item, key) for item in value)}]"
        case None:
            raise ValueError(f"settings: {key} is None: leave the key out to keep its default")
    if callable(value) and not is_given(name := function_name(value)):
        return json.dumps(name)
    raise ValueError(f"settings: {key} is {value!r}, which a recipe cannot store")
