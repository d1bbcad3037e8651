"""The keyword arguments of Python's functions as a request: functions become names, objects become values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from turnwise.config import Recipe
from turnwise.rewards import RewardTerm
from turnwise.rewards.terms import OwnReward, RewardLike
from turnwise.setup.consent import Consent
from turnwise.setup.request import RunRequest
from turnwise.system.python_functions import NOTHING_GIVEN, Given, function_name, is_given
from turnwise.tasks.load import from_rows
from turnwise.types import Task

TaskSource = str | Path | Iterable[Task | Mapping[str, Any]]
"""A task file, or tasks as objects or as rows of such a file."""

NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


def request_of(
    recipe: Recipe | str | Path | None = None,
    *,
    run: Path | None = None,
    model: str | Path | None = None,
    mcp: str | Path | None = None,
    tasks: Mapping[str, TaskSource | None] = NO_SETTINGS,
    rewards: Sequence[RewardLike] | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment: Callable[[], Any] | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
    functions: Given = NOTHING_GIVEN,
) -> RunRequest:
    """Return the request for a recipe or a run; `settings` win over the other arguments.

    `functions` are those that the recipe names already. ValueError for what a recipe cannot store.
    """
    given = dict(functions)
    changes: dict[str, Any] = {}
    if model is not None:
        changes["model.path"] = model
    if mcp is not None:
        changes["tools.mcp"] = mcp
    if rewards is not None:
        changes["rewards"] = reward_blocks(rewards, given)
    if tools is not None:
        changes["tools.functions"] = [named(function, given) for function in tools]
    if environment is not None:
        changes["environment"] = named(environment, given)
    in_memory = {}
    for split, source in tasks.items():
        if isinstance(source, str | Path):
            changes[f"tasks.{split}"] = source
        elif source is not None:
            in_memory[split] = from_rows(source, f"tasks.{split}")
    return RunRequest(
        source=recipe if recipe is None or isinstance(recipe, Recipe) else Path(recipe),
        changes=plain_values({**changes, **settings}),
        run=run,
        functions=given,
        tasks=in_memory,
        command="turnwise.train() in Python",
    )


def refusing(question: str) -> None:
    """Nobody is asked in Python: what the user has not agreed to is refused."""
    raise ValueError(f"{question}\nNothing was started. trust=True starts it.")


def consent(*, trust: bool) -> Consent | None:
    return None if trust else refusing


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
