"""A run as it is decided before a process is started or a weight is read."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from turnwise.config import Recipe, override_recipe
from turnwise.rollout.collector import CollectionPlan
from turnwise.rollout.conversation import PLAIN, EpisodeRules
from turnwise.rollout.players.policy import EpisodeLimits
from turnwise.setup.servers import ReadyServers
from turnwise.system.python_functions import Given
from turnwise.system.terminal import printable
from turnwise.tasks.selection import across_families
from turnwise.types import Task


@dataclass(frozen=True, slots=True)
class ResolvedRun:
    """What a request means on this machine; `setup.resolve` makes it."""

    recipe: Recipe
    """With its preset, its number of steps and its quantisation; of a training run with its sizes too."""
    tasks: Mapping[str, tuple[Task, ...]]
    """By split, as far as they were asked for; each file is read once."""
    servers: ReadyServers
    functions: Given
    """Functions that the recipe names and that cannot be imported."""
    notes: tuple[str, ...] = ()
    """What the user should know before anything starts."""
    sizes_note: str = ""
    """How its sizes were found; empty if they were set."""

    def announce(self) -> None:
        """Print the notes on stderr."""
        for note in self.notes:
            print(printable(note), file=sys.stderr)

    def tasks_of(self, split: str) -> tuple[Task, ...]:
        """Return the tasks of a split that was asked for; ValueError if there are none."""
        if split in self.tasks:
            return self.tasks[split]
        if split == "train" and self.recipe.environment:
            raise ValueError(
                f"tasks.train is not set, and environment {self.recipe.environment!r} generates no training "
                "tasks: give a file, or add a static method tasks() to the class"
            )
        raise ValueError(
            f"no tasks: tasks.{split} is not set (`turnwise tasks make` makes some), and none were given"
        )

    def measured_tasks(self) -> dict[str, tuple[Task, ...]]:
        """Return the tasks of every evaluation that a training run will make, by split."""
        return {
            split: across_families(self.tasks[split], self.recipe.evaluation.num_tasks)
            for split in self.recipe.played_splits
            if split in self.tasks and split != "train"
        }

    def changed(self, changes: Mapping[str, Any]) -> "ResolvedRun":
        """Return the run with these keys of its recipe changed; they must leave tasks and servers as is."""
        return replace(self, recipe=override_recipe(self.recipe, changes))

    def demonstrated(self) -> "ResolvedRun":
        """Return the run with its model replaced by the tasks' own demonstrations."""
        engine = self.recipe.engine.model_copy(update={"kind": "scripted"})
        rollout = self.recipe.rollout.model_copy(update={"lockstep": False, "max_repeats": 0})
        recipe = self.recipe.model_copy(update={"engine": engine, "rollout": rollout})
        return replace(self, recipe=recipe)

    def limits(self) -> EpisodeLimits:
        rollout = self.recipe.rollout
        return EpisodeLimits(rollout.tokens_per_turn, rollout.tokens_per_episode, rollout.seconds)

    def rules(self, *, is_evaluation: bool = False) -> EpisodeRules:
        """Return the rules of training episodes, or of evaluations: plain unless the recipe differs."""
        if is_evaluation and self.recipe.evaluation.plain:
            return PLAIN
        rollout = self.recipe.rollout
        mend = self.recipe.tools.mend_arguments
        return EpisodeRules(rollout.hints, rollout.max_repeats, rollout.mark_repeats, mend)

    def collection(self, group_size: int | None = None, seed: int | None = None) -> CollectionPlan:
        return CollectionPlan(
            group_size=group_size or self.recipe.rollout.group_size,
            num_parallel_episodes=self.recipe.sizes.num_parallel_episodes,
            seed=self.recipe.seed if seed is None else seed,
        )
