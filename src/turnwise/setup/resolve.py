"""What a call of the Python interface asks for, resolved to a recipe, functions and tasks."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from turnwise.config import Recipe, read_recipe
from turnwise.rewards.terms import RewardLike
from turnwise.setup.request import named, plain_values, reward_blocks
from turnwise.setup.servers import servers_of
from turnwise.setup.tasks import own_tasks, with_tasks_in
from turnwise.setup.trusted_runs import consent_question, not_agreed_to
from turnwise.system.process_setup import prepare
from turnwise.system.python_functions import Given
from turnwise.system.terminal import printable
from turnwise.tasks.load import from_rows, load
from turnwise.types import Task

TaskSource = str | Path | Iterable[Task | Mapping[str, Any]]
"""A task file, or tasks as objects or as rows of such a file."""

NO_SETTINGS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Resolved:
    """A recipe, and what it refers to but cannot store."""

    recipe: Recipe
    given: Given
    """Functions that cannot be imported, by their names in the recipe."""
    tasks: Mapping[str, tuple[Task, ...]]
    """Tasks that are in no file, by split."""
    name: str
    """The name of a run of this recipe, unless run.name is set."""
    recipe_file: str
    """The name of the recipe's file; empty if it is in no file."""

    def with_tasks_in(self, folder: Path) -> Recipe:
        """Write the tasks to this folder and return the recipe that refers to the files."""
        return with_tasks_in(self.recipe, self.tasks, folder)


def resolve(
    recipe: Recipe | str | Path | None,
    *,
    model: str | Path | None = None,
    mcp: str | Path | None = None,
    tasks: Mapping[str, TaskSource | None] = NO_SETTINGS,
    rewards: Sequence[RewardLike] | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment: Callable[[], Any] | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
) -> Resolved:
    """Resolve a recipe and its changes; ValueError for the user's mistakes. `settings` win over others."""
    prepare()
    given: dict[str, Callable[..., Any]] = {}
    chosen = changes(given, model=model, mcp=mcp, rewards=rewards, tools=tools, environment=environment)
    in_memory = {}
    for split, split_tasks in tasks.items():
        if isinstance(split_tasks, str | Path):
            chosen[f"tasks.{split}"] = split_tasks
        elif split_tasks is not None:
            in_memory[split] = from_rows(split_tasks, f"tasks.{split}")
    source = recipe if recipe is None or isinstance(recipe, Recipe) else Path(recipe)
    complete = read_recipe(source, plain_values({**chosen, **settings}))
    if "train" not in in_memory:
        in_memory = {**own_tasks(complete, given), **in_memory}
    name, recipe_file = (source.stem, source.name) if isinstance(source, Path) else ("run", "")
    if "train" in in_memory:
        complete = _with_few_tasks(complete, len(in_memory["train"]))
    return Resolved(_settled(complete), given, in_memory, name, recipe_file)


def changes(
    given: dict[str, Callable[..., Any]],
    *,
    model: str | Path | None = None,
    mcp: str | Path | None = None,
    rewards: Sequence[RewardLike] | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment: Callable[[], Any] | None = None,
) -> dict[str, Any]:
    """Return the recipe keys that these arguments set; functions that cannot be imported go into `given`."""
    keys: dict[str, Any] = {}
    if model is not None:
        keys["model.path"] = model
    if mcp is not None:
        keys["tools.mcp"] = mcp
    if rewards is not None:
        keys["rewards"] = reward_blocks(rewards, given)
    if tools is not None:
        keys["tools.functions"] = [named(function, given) for function in tools]
    if environment is not None:
        keys["environment"] = named(environment, given)
    return keys


def tasks_from(source: TaskSource | None, default: Path | None, key: str) -> tuple[Task, ...]:
    """Return the tasks of a source, or of the recipe's file under `key`; ValueError if there is neither."""
    if source is None:
        if default is None:
            raise ValueError(f"no tasks: give `tasks`, or set {key} in the recipe")
        return load(default)
    return load(Path(source)) if isinstance(source, str | Path) else from_rows(source)


def announce_servers(recipe: Recipe, given: Given) -> None:
    """Print on stderr which servers are live and which keys are unused; ValueError for wrong settings."""
    if not recipe.tools.is_replayed:
        for note in servers_of(recipe, given=given).notes:
            print(printable(note), file=sys.stderr)


def require_one_process(recipe: Recipe, function: str) -> None:
    """Raise ValueError if the recipe is for several processes, which only the command can start."""
    hardware = recipe.hardware
    if hardware.num_processes > 1 or hardware.strategy != "data_parallel":
        raise ValueError(
            f"hardware.num_processes is {hardware.num_processes}, hardware.strategy {hardware.strategy!r}: "
            f"turnwise.{function} runs in this process only; use the command `turnwise train`"
        )


def require_consent(run: Path, recipe: Recipe, changed: Recipe, keys: Sequence[str], *, trust: bool) -> None:
    """Raise ValueError if a run made elsewhere would start what this user has not agreed to.

    `changed` is the run's recipe with the changed `keys`.
    """
    if not trust and (named := not_agreed_to(recipe, changed, keys)):
        raise ValueError(f"{consent_question(run, named)}\nNothing was started. trust=True goes on with it.")


def _with_few_tasks(recipe: Recipe, num_tasks: int) -> Recipe:
    """Return the recipe; unless run.tasks_per_step was set, a step draws no more tasks than there are."""
    run = recipe.run
    if "tasks_per_step" in run.model_fields_set or not 0 < num_tasks < run.tasks_per_step:
        return recipe
    return recipe.model_copy(update={"run": run.model_copy(update={"tasks_per_step": num_tasks})})


def _settled(recipe: Recipe) -> Recipe:
    """Return the recipe as this machine can run it: with a bfloat16 base if it cannot quantise."""
    if recipe.model.quantisation == "none":
        return recipe
    from turnwise.models.quantised import settled

    return settled(recipe)
