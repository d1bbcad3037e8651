"""The tasks of one batch, in the order they are drawn."""

from collections.abc import Sequence

from turnwise.tasks.curriculum import Curriculum, CurriculumState, draw
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
        num_in_vain = 0
        before = self.state, self._elsewhere
        while len(self._drawn) < count:
            if num_in_vain > _MAX_PASSES_WITHOUT_NEW_TASK * len(self._tasks):
                have, where = len(self._drawn), f"the curriculum at step {self._step}"
                raise NothingLeft(f"tasks.train: {where} draws from {have} tasks, {count} are wanted")
            num_in_vain += 1
            state = self._elsewhere or self.state
            (task,), state = draw(self._tasks, self._curriculum, state, step=self._step, count=1)
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
                num_in_vain = 0

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
