"""A recipe resolved as the command resolves it, with tasks that need no file."""

from collections.abc import Sequence
from typing import Any

from turnwise.config import Recipe
from turnwise.setup.agent import Agent
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.types import Task


def resolved(recipe: Recipe, **tasks: Sequence[Task]) -> ResolvedRun:
    """The run with these tasks by split, or with those of the files that training reads."""
    request = RunRequest(recipe, tasks={split: tuple(of_split) for split, of_split in tasks.items()})
    return resolve(request, recipe, tuple(tasks) or recipe.played_splits)


def with_servers(recipe: Recipe) -> ResolvedRun:
    """The run without a look at its tasks."""
    return resolve(RunRequest(recipe), recipe)


def agent(recipe: Recipe, test: Sequence[Task], model: Any = None) -> Agent:
    return Agent(resolved(recipe, test=test), model)
