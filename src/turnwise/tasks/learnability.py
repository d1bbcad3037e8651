"""Draw tasks whose group will probably differ: some members succeed and others fail.

A group that is all right or all wrong teaches nothing. What is mastered or hopeless is still checked: every
CHECK_EVERY-th draw takes a task of the family that was played least recently.
"""

import random
from collections.abc import Collection, Sequence
from typing import TypeVar

from turnwise.tasks.success_record import Estimates, SuccessRecord
from turnwise.types import Task

Item = TypeVar("Item")

CHECK_EVERY = 8
"""An eighth of the draws are checks, so with F families each is played at least once in 8 F draws."""
SHARPNESS = 3
"""A task is drawn in proportion to this power of its chance: at 1 the many mastered tasks outweigh it.
The test simulates tasks of which .27 differ under an even draw: .64, .75, .77 and .79 at powers 1 to 4."""


class LearnableTasks:
    """The tasks of one step, with the probability that a group of each will differ."""

    def __init__(self, tasks: Sequence[Task], record: SuccessRecord, *, step: int, num_members: int) -> None:
        self._tasks = tasks
        self._step = step
        self._last_played = {task.id: record[task.id][-1].step if task.id in record else -1 for task in tasks}
        estimates = Estimates({task.id: task.family for task in tasks}, record, step)
        num = max(num_members, 2)  # a group of one never differs, but two of them may
        unplayed = {
            family: estimates.prior(family).chance_to_differ(num)
            for family in dict.fromkeys(task.family for task in tasks)
        }
        self._chances = {
            task.id: estimates.of(task.id).chance_to_differ(num)
            if task.id in record
            else unplayed[task.family]
            for task in tasks
        }

    def chance(self, task: Task) -> float:
        """The probability that a group of the task will differ."""
        return self._chances[task.id]

    def draw(self, seed: str, number: int, drawn: Collection[str]) -> Task | None:
        """The draw with this number, from the tasks whose ids are not in `drawn`; None if there are none."""
        left = [task for task in self._tasks if task.id not in drawn]
        if not left:
            return None
        rng = random.Random(f"{seed}/learnability/{number}")  # noqa: S311
        if number % CHECK_EVERY == CHECK_EVERY - 1:
            return self._least_recent(left, drawn, rng)
        weights = [self._chances[task.id] ** SHARPNESS for task in left]
        point = rng.random() * sum(weights)
        for task, weight in zip(left, weights, strict=True):
            point -= weight
            if point < 0:
                return task
        return left[-1]

    def _least_recent(self, left: Sequence[Task], drawn: Collection[str], rng: random.Random) -> Task:
        """A task of the family that was played least recently, and of its tasks the least recent."""
        family_played: dict[str, int] = {}
        for task in self._tasks:
            played = self._step if task.id in drawn else self._last_played[task.id]
            family_played[task.family] = max(played, family_played.get(task.family, -1))
        families = dict.fromkeys(task.family for task in left)
        earliest = min(family_played[family] for family in families)
        family = _one_of([one for one in families if family_played[one] == earliest], rng)
        own = [task for task in left if task.family == family]
        first = min(self._last_played[task.id] for task in own)
        return _one_of([task for task in own if self._last_played[task.id] == first], rng)


def _one_of(items: Sequence[Item], rng: random.Random) -> Item:
    """An item drawn with `random()` alone, which is the same in every Python version."""
    return items[int(rng.random() * len(items))]
