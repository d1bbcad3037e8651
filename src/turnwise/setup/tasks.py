"""The tasks of a recipe that names no file of them: its environment's own, or those of generated worlds."""

from collections.abc import Mapping
from pathlib import Path

from turnwise.config import Recipe
from turnwise.config.generated_worlds import generated_worlds
from turnwise.system.python_functions import NOTHING_GIVEN, Given
from turnwise.tasks.load import save
from turnwise.tasks.selection import SPLITS
from turnwise.types import Task
from turnwise.worlds.environment import find_environment, generated_tasks
from turnwise.worlds.generated.folder import tasks_of_worlds


def may_make_tasks(recipe: Recipe) -> bool:
    """Return whether the recipe names no training tasks, and something that has its own."""
    return recipe.tasks.train is None and (
        bool(recipe.environment) or generated_worlds(recipe.tools.mcp) is not None
    )


def own_tasks(recipe: Recipe, given: Given = NOTHING_GIVEN) -> dict[str, tuple[Task, ...]]:
    """Return the tasks of the environment's `tasks()`, or of the generated worlds, by split.

    Empty if the recipe has neither or names its own training tasks, or if there is no `tasks()`.
    """
    if not may_make_tasks(recipe):
        return {}
    worlds, name = generated_worlds(recipe.tools.mcp), recipe.environment
    if worlds is not None:
        own = tasks_of_worlds(worlds.num, worlds.seed)
    else:
        own = generated_tasks(name, find_environment(name, given))
    if unknown := [split for split in own if split not in SPLITS]:
        raise ValueError(
            f"environment {name!r}: tasks(): split {unknown[0]!r} is not one of {', '.join(SPLITS)}"
        )
    return {split: tasks for split, tasks in own.items() if split not in recipe.tasks.files}


def with_own_tasks(recipe: Recipe, folder: Path, given: Given = NOTHING_GIVEN) -> Recipe:
    """Write the recipe's own tasks to this folder and return the recipe that refers to the files.

    Raises ValueError if the recipe has an environment and there are no training tasks at all.
    """
    own = own_tasks(recipe, given)
    if recipe.environment and recipe.tasks.train is None and "train" not in own:
        raise ValueError(
            f"tasks.train is not set, and environment {recipe.environment!r} generates no training tasks: "
            "give a file, or add a static method tasks() to the class"
        )
    return with_tasks_in(recipe, own, folder)


def with_tasks_in(recipe: Recipe, tasks: Mapping[str, tuple[Task, ...]], folder: Path) -> Recipe:
    """Write tasks to `SPLIT.jsonl` files in this folder and return the recipe that refers to them."""
    files = {split: folder / f"{split}.jsonl" for split in tasks}
    for split, file in files.items():
        save(tasks[split], file)
    resolved = {split: file.resolve() for split, file in files.items()}
    return recipe.model_copy(update={"tasks": recipe.tasks.model_copy(update=resolved)})
