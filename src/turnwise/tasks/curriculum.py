"""Draw the next tasks from a curriculum and its state.

The state holds everything that changes between draws, so a resumed run draws the same tasks as an
uninterrupted one.
"""

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from turnwise.config import CurriculumConfig, RunConfig
from turnwise.tasks.success_record import SuccessRecord, record_as_json, record_of
from turnwise.types import Difficulty, Task

LEVELS = (Difficulty.EASY, Difficulty.MEDIUM, Difficulty.HARD)

Mixture = tuple[float, float, float]
"""Relative shares of easy, medium and hard tasks; they need not add up to one."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Mixtures at given steps, interpolated linearly between them and constant after the last.

    ((0, (1, 0, 0)), (100, (0, 1, 0))) is all easy at step 0, and half easy, half medium at step 50.
    """

    points: tuple[tuple[int, Mixture], ...] = ((0, (1.0, 1.0, 1.0)),)

    def __post_init__(self) -> None:
        steps = [step for step, _ in self.points]
        if not steps or steps[0] != 0 or steps != sorted(set(steps)):
            raise ValueError(f"points: steps must start at 0 and rise, got {steps}")
        for _, mixture in self.points:
            _check_mixture(mixture)

    def mixture(self, state: "CurriculumState", step: int) -> Mixture:
        after = next((index for index, (at, _) in enumerate(self.points) if at > step), None)
        if after is None:
            return self.points[-1][1]
        (start, before), (end, then) = self.points[after - 1], self.points[after]
        way = (step - start) / (end - start)
        easy, medium, hard = (a + way * (b - a) for a, b in zip(before, then, strict=True))
        return easy, medium, hard


@dataclass(frozen=True, slots=True)
class BySuccess:
    """One level at a time; the next begins once `threshold` of the last `window` episodes succeeded."""

    threshold: float = 0.7
    """Success rate that promotes to the next level. At 0.7, 6 % of the groups of 8 are all correct and teach
    nothing; at 0.9 it is 43 %."""
    window: int = 64
    """Number of latest episodes of the current level that count; 64 measure a rate of 0.7 within ±0.11."""
    review: float = 0.2
    """Share of tasks drawn from the levels already passed, so that they are not forgotten."""

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold: must be above 0 and at most 1, got {self.threshold}")
        if self.window < 1:
            raise ValueError(f"window: must be 1 or more, got {self.window}")
        if not 0 <= self.review < 1:
            raise ValueError(f"review: must be from 0 to below 1, got {self.review}")

    def mixture(self, state: "CurriculumState", step: int) -> Mixture:
        shares = [0.0, 0.0, 0.0]
        shares[state.level] = 1.0 - self.review if state.level else 1.0
        for passed in range(state.level):
            shares[passed] = self.review / state.level
        return shares[0], shares[1], shares[2]


@dataclass(frozen=True, slots=True)
class ShuffledPasses:
    """Every task once, in shuffled order, before any repeats; difficulty is ignored."""

    tasks_per_step: int
    """Tasks in one step; a step that spans two passes never has a task twice."""


@dataclass(frozen=True, slots=True)
class ByLearnability:
    """Tasks of which some members will probably succeed and others fail; see `LearnableTasks`."""

    num_members: int
    """Members of a group."""


Curriculum = Schedule | BySuccess | ShuffledPasses | ByLearnability


@dataclass(frozen=True, slots=True)
class CurriculumState:
    """A curriculum's progress; a round trip through JSON is exact."""

    seed: int = 0
    num_drawn: int = 0
    level: int = 0
    """Index into LEVELS of the level being learned (BySuccess)."""
    recent: tuple[bool, ...] = ()
    """The last outcomes at this level, oldest first (BySuccess)."""
    epochs: tuple[int, int, int] = (0, 0, 0)
    cursors: tuple[int, int, int] = (0, 0, 0)
    """Number of tasks already drawn from each level in its current epoch."""
    record: SuccessRecord = field(default_factory=dict)
    """The latest outcomes of every task, whichever curriculum draws."""

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "num_drawn": self.num_drawn,
            "level": self.level,
            "recent": list(self.recent),
            "epochs": list(self.epochs),
            "cursors": list(self.cursors),
            "record": record_as_json(self.record),
        }


def state_of(saved: Mapping[str, Any]) -> CurriculumState:
    """Restore the state from the output of `as_json`."""
    easy, medium, hard = saved["epochs"]
    first, second, third = saved["cursors"]
    return CurriculumState(
        seed=saved["seed"],
        num_drawn=saved["num_drawn"],
        level=saved["level"],
        recent=tuple(saved["recent"]),
        epochs=(easy, medium, hard),
        cursors=(first, second, third),
        record=record_of(saved["record"]),
    )


def draw(
    tasks: Sequence[Task],
    curriculum: Schedule | BySuccess | ShuffledPasses,
    state: CurriculumState,
    *,
    step: int,
    count: int,
) -> tuple[tuple[Task, ...], CurriculumState]:
    """Draw the next `count` tasks; each task of a level is drawn once, in shuffled order, before any repeats.

    A level without tasks leaves its share to the others. If no level with a share has tasks, all draws are
    from the easiest level that has tasks.
    """
    if not tasks:
        raise ValueError("tasks: there are no tasks to draw from")
    if isinstance(curriculum, ShuffledPasses):
        return _next_of_passes(tasks, curriculum, state, count)
    pools = tuple(tuple(task for task in tasks if task.difficulty is level) for level in LEVELS)
    if isinstance(curriculum, BySuccess):
        state = _past_empty(state, pools)
    orders = [_order(pool, level, state) for level, pool in enumerate(pools)]
    drawn: list[Task] = []
    for _ in range(count):
        shares = _usable(curriculum.mixture(state, step), pools)
        # One generator per draw, so that only the count has to be saved.
        rng = random.Random(f"{state.seed}/draw/{state.num_drawn}")  # noqa: S311
        level = _pick(shares, rng.random())
        drawn.append(pools[level][orders[level][state.cursors[level]]])
        state = _advance(state, level, len(pools[level]))
        if state.cursors[level] == 0:
            orders[level] = _order(pools[level], level, state)
    return tuple(drawn), state


def _next_of_passes(
    tasks: Sequence[Task], curriculum: ShuffledPasses, state: CurriculumState, count: int
) -> tuple[tuple[Task, ...], CurriculumState]:
    drawn = []
    for position in range(state.num_drawn, state.num_drawn + count):
        epoch, place = divmod(position, len(tasks))
        order = _pass_order(state.seed, epoch, len(tasks), curriculum.tasks_per_step)
        drawn.append(tasks[order[place]])
    return tuple(drawn), replace(state, num_drawn=state.num_drawn + count)


@functools.lru_cache(maxsize=8)
def _pass_order(seed: int, epoch: int, num_tasks: int, tasks_per_step: int) -> tuple[int, ...]:
    """Return the task indices in the order of one pass.

    A pass may begin within a step. The tasks that this step took from the previous pass come later.
    """
    first = epoch
    while first * num_tasks % tasks_per_step:
        first -= 1  # back to a pass that began with a step: it depends on no other
    order = _shuffled(f"{seed}/pass/{first}", num_tasks)
    for number in range(first + 1, epoch + 1):
        num_before = number * num_tasks % tasks_per_step
        before = set(order[num_tasks - num_before :])
        shuffled = _shuffled(f"{seed}/pass/{number}", num_tasks)
        begin = [index for index in shuffled if index not in before][: tasks_per_step - num_before]
        begun = set(begin)
        order = [*begin, *(index for index in shuffled if index not in begun)]
    return tuple(order)


def _shuffled(seed: str, size: int) -> list[int]:
    """Return a permutation drawn with `random()` alone, which is the same in every Python version."""
    rng = random.Random(seed)  # noqa: S311
    keys = [rng.random() for _ in range(size)]
    return sorted(range(size), key=lambda index: keys[index])


def note(
    curriculum: Curriculum, state: CurriculumState, difficulty: Difficulty, is_success: bool
) -> CurriculumState:
    """Record an episode's outcome; only episodes of the level being learned count."""
    if not isinstance(curriculum, BySuccess) or difficulty is not LEVELS[state.level]:
        return state
    recent = (*state.recent, is_success)[-curriculum.window :]
    is_full = len(recent) == curriculum.window
    if is_full and sum(recent) >= curriculum.threshold * len(recent) and state.level < len(LEVELS) - 1:
        return replace(state, level=state.level + 1, recent=())
    return replace(state, recent=recent)


def least_choice(tasks: Sequence[Task], curriculum: Curriculum, num_steps: int) -> tuple[int, int]:
    """Return the smallest number of different tasks that a step can draw from, and the first such step.

    `BySuccess` may reach any level at any step, so every level is checked and reported as step 0.
    """
    pools = tuple(tuple(task for task in tasks if task.difficulty is level) for level in LEVELS)
    if isinstance(curriculum, ShuffledPasses | ByLearnability):
        return len(tasks), 0
    if isinstance(curriculum, BySuccess):
        states = [(0, _past_empty(CurriculumState(level=level), pools)) for level in range(len(LEVELS))]
    else:
        last = curriculum.points[-1][0]
        states = [(step, CurriculumState()) for step in range(min(num_steps, last + 1))]
    counts = []
    for step, state in states:
        shares = _usable(curriculum.mixture(state, step), pools)
        num_choices = sum(len(pool) for share, pool in zip(shares, pools, strict=True) if share > 0)
        counts.append((num_choices, step))
    return min(counts, default=(len(tasks), 0))


def curriculum_of(config: CurriculumConfig, run: RunConfig, group_size: int) -> Curriculum:
    if run.num_epochs is not None:
        return ShuffledPasses(run.tasks_per_step)
    if config.kind == "success":
        return BySuccess(config.threshold, run.tasks_per_step * group_size)
    if config.kind == "learnability":
        return ByLearnability(group_size)
    return Schedule(config.points) if config.kind == "schedule" else Schedule()


def _past_empty(state: CurriculumState, pools: Sequence[Sequence[Task]]) -> CurriculumState:
    """Skip to the next level that has tasks: a level without tasks cannot be passed by playing."""
    level = next((level for level in range(state.level, len(pools)) if pools[level]), state.level)
    return state if level == state.level else replace(state, level=level, recent=())


def _check_mixture(mixture: Mixture) -> None:
    if len(mixture) != len(LEVELS) or min(mixture) < 0 or not 0 < sum(mixture) < float("inf"):
        raise ValueError(f"points: a mixture is three shares from 0, not all 0, got {mixture}")


def _order(pool: Sequence[Task], level: int, state: CurriculumState) -> list[int]:
    """Return the task order of a level in its current epoch."""
    return _shuffled(f"{state.seed}/epoch/{level}/{state.epochs[level]}", len(pool))


def _usable(mixture: Mixture, pools: Sequence[Sequence[Task]]) -> list[float]:
    shares = [share if pool else 0.0 for share, pool in zip(mixture, pools, strict=True)]
    if sum(shares) > 0:
        return shares
    easiest = next(level for level, pool in enumerate(pools) if pool)
    return [1.0 if level == easiest else 0.0 for level in range(len(pools))]


def _pick(shares: Sequence[float], number: float) -> int:
    """Return the level that a random number from 0 to 1 selects."""
    point = number * sum(shares)
    for level, share in enumerate(shares):
        point -= share
        if point < 0 and share > 0:
            return level
    return max(level for level, share in enumerate(shares) if share > 0)


def _advance(state: CurriculumState, level: int, size: int) -> CurriculumState:
    cursor = state.cursors[level] + 1
    is_over = cursor == size
    cursors, epochs = list(state.cursors), list(state.epochs)
    cursors[level] = 0 if is_over else cursor
    epochs[level] += is_over
    return replace(
        state,
        num_drawn=state.num_drawn + 1,
        cursors=(cursors[0], cursors[1], cursors[2]),
        epochs=(epochs[0], epochs[1], epochs[2]),
    )
