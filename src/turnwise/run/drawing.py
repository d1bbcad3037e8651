"""The tasks of one batch, in the order they are drawn."""

from collections.abc import Sequence
from dataclasses import replace

from turnwise.tasks.curriculum import ByLearnability, Curriculum, CurriculumState, draw
from turnwise.tasks.learnability import LearnableTasks
from turnwise.types import Task

_MAX_PASSES_WITHOUT_NEW_TASK = 20
"""Passes over the tasks without a new one before drawing gives up: some levels are drawn rarely."""


class NothingLeft(ValueError):
    """Every task that the curriculum draws from is in the batch already."""


class Drawing:
    """The tasks of one batch, drawn one at a time; none is drawn twice or is in another current batch."""

    def __init__(
        self,
        tasks: Sequence[Task],
        curriculum: Curriculum,
        state: CurriculumState,
        step: int,
        in_play: set[str] | None = None,
    ) -> None:
        self._tasks = tasks
        self._in_play: set[str] = set() if in_play is None else in_play
        self._elsewhere: CurriculumState | None = None
        self._curriculum = curriculum
        self._step = step
        self._learnable = (
            LearnableTasks(tasks, state.record, step=step, num_members=curriculum.num_members)
            if isinstance(curriculum, ByLearnability)
            else None
        )
        self._drawn: list[Task] = []
        self._states: list[tuple[CurriculumState, CurriculumState | None]] = []
        """Before each drawn task: the curriculum's state, and the state that replacements come from."""
        self.state = state
        self.order: dict[str, int] = {}

    @property
    def num_drawn(self) -> int:
        return len(self._drawn)

    def task(self, place: int) -> Task:
        """The task at this place of the drawing order."""
        self.draw_up_to(place + 1)
        return self._drawn[place]

    def draw_up_to(self, count: int) -> None:
        num_repeated_draws = 0
        before = self.state, self._elsewhere
        while len(self._drawn) < count:
            task, state = self._next(self._elsewhere or self.state)
            if task is None or num_repeated_draws > _MAX_PASSES_WITHOUT_NEW_TASK * len(self._tasks):
                have, where = len(self._drawn), f"the curriculum at step {self._step}"
                raise NothingLeft(f"tasks.train: {where} draws from {have} tasks, {count} are wanted")
            num_repeated_draws += 1
            if self._elsewhere is None:
                self.state = state
            else:
                self._elsewhere = state
            # an epoch that ends within a step can draw a task again; its group would be an exact copy
            if task.id not in self._in_play:
                self._in_play.add(task.id)
                self.order[task.id] = len(self.order)
                self._drawn.append(task)
                self._states.append(before)
                before = self.state, self._elsewhere
                num_repeated_draws = 0

    def _next(self, state: CurriculumState) -> tuple[Task | None, CurriculumState]:
        """The next task and the state after it; None if no task is left."""
        if isinstance(self._curriculum, ByLearnability):
            assert self._learnable is not None
            task = self._learnable.draw(str(state.seed), state.num_drawn, self._in_play)
            return task, replace(state, num_drawn=state.num_drawn + 1)
        (drawn,), state = draw(self._tasks, self._curriculum, state, step=self._step, count=1)
        return drawn, state

    def predicted(self, task: Task) -> float | None:
        """The probability that the task's group differs, as it was before the draw; None if not known."""
        return None if self._learnable is None else self._learnable.chance(task)

    def go_on_from(self, state: CurriculumState) -> CurriculumState:
        """Draw further tasks from `state`; returns the curriculum's state after the draws so far."""
        self._elsewhere = state
        return self.state

    def take_back(self, count: int) -> None:
        """Undo the last `count` draws: the next batch draws these tasks."""
        for _ in range(count):
            task = self._drawn.pop()
            self.order.pop(task.id)
            self._in_play.discard(task.id)
            self.state, self._elsewhere = self._states.pop()
