"""Starts inside the plan: how many turns of its demonstration a task's next episodes are given.

A task whose episodes all fail starts further inside its plan the next time, half of the way to the last turn.
One that succeeds from there moves back. A task that was not played yet starts where its family has arrived.
"""

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnwise.types import Task

CHECKED_SHARE = 0.25
"""The share of a task's groups that start at the beginning nevertheless, so that its success is known."""
FAMILY_RATE = 0.5
"""How far one group moves its family: the mean over about its last three groups."""
MASTERED = 0.5
"""The share of successes from which a task moves back."""


@dataclass(frozen=True, slots=True)
class PlayedGroup:
    """One group of episodes of a task, as far as starts inside the plan depend on it."""

    task: Task
    num_given: int
    """Turns of the plan that its episodes started with."""
    success: float
    """The share of them that reached the task's goal from there."""


@dataclass(frozen=True, slots=True)
class PlanStarts:
    """How far inside their plans tasks start; a round trip through JSON is exact."""

    seed: int = 0
    num_noted: int = 0
    """Groups noted so far."""
    tasks: Mapping[str, int] = field(default_factory=dict)
    """The turns that a task is given, by id, of the tasks that were played."""
    families: Mapping[str, float] = field(default_factory=dict)
    """The share of the plan that a family's tasks are given: 0 nothing, 1 all but the last turn."""

    def num_given(self, task: Task) -> int:
        """Return how many turns of its demonstration the task's next episodes start with."""
        num_turns = _most_given(task)
        wanted = self.tasks.get(task.id)
        if wanted is None:
            # A quarter of a turn in favour of the plan: a family that always fails never quite reaches 1.
            wanted = math.floor(self.families.get(task.family, 0.0) * num_turns + 0.25)
        rng = random.Random(f"{self.seed}/plan start/{self.num_noted}/{task.id}")  # noqa: S311
        return 0 if rng.random() < CHECKED_SHARE else min(wanted, num_turns)

    def noted(self, groups: Iterable[PlayedGroup]) -> "PlanStarts":
        """The starts after these groups, in their order."""
        tasks, families, num_noted = dict(self.tasks), dict(self.families), self.num_noted
        for group in groups:
            num_noted += 1
            task, most = group.task, _most_given(group.task)
            if not most:
                continue
            tasks[task.id] = _next_start(group, tasks.get(task.id, group.num_given), most)
            share = families.get(task.family, 0.0)
            families[task.family] = share + FAMILY_RATE * (tasks[task.id] / most - share)
        return PlanStarts(self.seed, num_noted, tasks, families)

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "num_noted": self.num_noted,
            "tasks": dict(self.tasks),
            "families": dict(self.families),
        }


def plan_starts_of(saved: Mapping[str, Any]) -> PlanStarts:
    """The inverse of `PlanStarts.as_json`."""
    return PlanStarts(saved["seed"], saved["num_noted"], dict(saved["tasks"]), dict(saved["families"]))


def _most_given(task: Task) -> int:
    """All turns of the plan but the last: the model must finish the task itself."""
    return max(len(task.demonstration) - 1, 0)


def _next_start(group: PlayedGroup, current: int, most: int) -> int:
    """Where the task starts next; `current` is where it would have started if this group was only a check."""
    played = group.num_given
    if group.success >= MASTERED:
        return min(current, played // 2)
    if group.success > 0:  # members differ: here is something to learn
        return min(current, played)
    if played < current:
        return current
    return played + math.ceil((most - played) / 2)
