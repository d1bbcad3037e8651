"""One batch of complete groups per step, collected ahead of the update where the recipe allows it.

Every rank draws the same tasks in the same order and plays its share of the groups. A group that must be
replaced is replaced by the next task that no rank has drawn, so the batch does not depend on who plays it.
"""

import asyncio
import contextlib
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from turnwise.config import Recipe, RolloutConfig
from turnwise.rewards import reached_goal, succeeded
from turnwise.rollout.collection_counts import Progress
from turnwise.rollout.collector import Collector, step_seed
from turnwise.rollout.rank_exchange import gather_from_ranks, rank_share, total_progress
from turnwise.run.drawing import Drawing, NothingLeft
from turnwise.system.ranks import ALONE, Ranks
from turnwise.tasks.curriculum import (
    ByLearnability,
    BySuccess,
    Curriculum,
    CurriculumState,
    Schedule,
    ShuffledPasses,
    curriculum_of,
    note,
)
from turnwise.tasks.plan_starts import PlanStarts, PlayedGroup
from turnwise.tasks.success_record import Estimates, GroupOutcome, with_outcomes
from turnwise.tasks.temperatures import FamilyTemperatures, SampledGroup
from turnwise.training.algorithms.advantages import has_signal
from turnwise.types import Group, Task

NewCollector = Callable[[int, PlanStarts, FamilyTemperatures], Collector]
"""`new_collector(step, starts, temperatures)` returns a collector with that step's seed, whose episodes start
there and are sampled at these temperatures."""

MAX_ROUNDS = 2
"""While less than a quarter of a batch's groups have a learning signal, up to this many times the number of
tasks is drawn that is drawn otherwise: a full-sized update on one or two groups is mostly noise."""


@dataclass(frozen=True, slots=True)
class CollectedBatch:
    """The groups that one step learns from, and all groups that were played for it."""

    step: int
    groups: tuple[Group, ...]
    """Groups with a learning signal, in the order their tasks were drawn."""
    played: tuple[Group, ...]
    """Those, and the groups whose members all earned the same reward."""
    progress: Progress
    curriculum: CurriculumState
    """The curriculum's state after this batch: where the next batch starts."""
    plan_starts: PlanStarts
    """How far inside their plans tasks start after this batch."""
    temperatures: FamilyTemperatures
    """The temperatures of families after this batch."""
    predicted: tuple[float, ...]
    """For every group of `played`, the probability of a learning signal as it was before the draw; empty if
    the curriculum does not know it."""
    seconds: float

    def outcomes(self) -> list[tuple[str, GroupOutcome]]:
        """The outcome of every played group, with its task's id; inside a plan, whether it got through."""
        return [
            (group.task.id, GroupOutcome(self.step, _num_through(group), len(group.rewards), group.num_given))
            for group in self.played
        ]


@dataclass(frozen=True, slots=True)
class _Share:
    """The groups that one rank played for a batch."""

    groups: tuple[Group, ...]
    num_drawn: int
    """Number of tasks drawn up to and including the last one it played."""
    progress: Progress


class Batches:
    """One batch per step; asynchronous runs collect some steps before the update that precedes them.

    In a synchronous run a step's episodes start after the update of the step before. In an asynchronous run
    they start up to `run.max_staleness` steps earlier, so no token is more than that many versions old when
    it is trained on.

    Asynchronous batches are collected concurrently, episodes of the earlier batch first, so that its last
    episodes leave no slot idle. Each batch then has its own stream of replacement tasks, and the next batch
    starts drawing where the initial tasks of this one end; a curriculum by learnability then draws from what
    is known of the batches taken so far. Batches are collected one after another if the next depends on the
    results of this one (a curriculum by success), if several ranks must agree on it, if there are too few
    tasks, or if every pass over the tasks must contain each task once.

    Synchronous steps with `rollout.dynamic_sampling` start as many replacements at once as the last step
    needed. Otherwise a step would wait for a second wave of episodes, with most slots idle. The batch is the
    same. It is not done in lockstep, where numbers depend on which episodes play together, and not with a
    cassette, because it depends on timing how many calls a cancelled group has made.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        recipe: Recipe,
        new_collector: NewCollector,
        *,
        steps: range,
        shown: Callable[[Progress], AbstractAsyncContextManager[None]],
        on_group: Callable[[int, Group], None],
        ranks: Ranks = ALONE,
    ) -> None:
        recipe.run.check_num_tasks(len(tasks))
        self._tasks = tasks
        self._recipe = recipe
        self._new_collector = new_collector
        self._steps = steps
        self._shown = shown
        self._on_group = on_group
        self._ranks = ranks
        self._curriculum = curriculum_of(recipe.curriculum, recipe.run, recipe.rollout.group_size)
        self._num_drawn = min(most_drawn(recipe.run.tasks_per_step, recipe.rollout), len(tasks))
        self._num_ahead = recipe.run.max_staleness if recipe.run.mode == "async" else 0
        self._is_side_by_side = (
            isinstance(self._curriculum, Schedule | ByLearnability)
            and ranks.count == 1
            and _fewest(tasks, self._curriculum) >= (1 + self._num_ahead) * self._num_drawn
            and self._num_ahead > 0
        )
        self._in_play: set[str] = set()
        """Ids of tasks in concurrently collected batches; no task is in two of them."""
        self._drawings: dict[int, Drawing] = {}
        self._starts_inside_plans = recipe.curriculum.plan_starts and not recipe.environment
        self._plan_starts = PlanStarts(recipe.seed)
        """As of the batches collected so far, as the temperatures are."""
        self._temperatures = FamilyTemperatures()
        self._families = {task.id: task.family for task in tasks}
        self._reached = CurriculumState()
        """The curriculum's state from which the next of these batches draws."""
        self._collections: dict[int, asyncio.Task[CollectedBatch]] = {}
        self._starts_replacements = (
            recipe.rollout.dynamic_sampling
            and recipe.run.mode == "sync"
            and ranks.count == 1
            and not recipe.rollout.lockstep
            and recipe.tools.cassette is None
        )
        self._flat_share = 0.0
        """Share of the last step's groups that were replaced."""

    @contextlib.asynccontextmanager
    async def collecting(
        self,
        state: CurriculumState,
        plan_starts: PlanStarts | None = None,
        temperatures: FamilyTemperatures | None = None,
    ) -> AsyncIterator[None]:
        """Start collecting, with the curriculum at `state`; leaving the block cancels what is in flight."""
        self._reached = state
        self._plan_starts = plan_starts or self._plan_starts
        self._temperatures = temperatures or self._temperatures
        for step in self._steps[: 1 + self._num_ahead]:
            self._begin(step, state)
        try:
            yield
        finally:
            running = list(self._collections.values())
            for collection in running:
                collection.cancel()
            if running:
                await asyncio.wait(running)

    async def take(self, step: int) -> CollectedBatch:
        """Wait for this step's batch. Raises what its collection raised."""
        batch = await self._collections[step]
        if not self._is_side_by_side:
            return batch
        # it was drawn before the batches ahead of it were played: their outcomes are added here, in order
        self._reached = _noted(self._curriculum, self._reached, batch)
        return replace(batch, curriculum=replace(batch.curriculum, record=self._reached.record))

    def learned_from(self, step: int) -> None:
        """Start collecting one more step; called when the weights after `step` are published."""
        batch = self._collections.pop(step).result()
        if step in self._drawings:
            self._in_play -= self._drawings.pop(step).order.keys()
        further = step + 1 + self._num_ahead
        if further in self._steps:
            self._begin(further, batch.curriculum)

    def _begin(self, step: int, state: CurriculumState) -> None:
        if self._is_side_by_side:
            collecting = self._collect(step, self._drawn_first(step))
        else:
            collecting = self._collect_after(self._collections.get(step - 1), step, state)
        self._collections[step] = asyncio.create_task(collecting, name=f"collecting step {step}")

    def _drawn_first(self, step: int) -> Drawing:
        """Draw a step's initial tasks; the next batch starts drawing after them."""
        drawing = Drawing(self._tasks, self._curriculum, self._reached, step, self._in_play)
        drawing.draw_up_to(self._recipe.run.tasks_per_step)
        self._reached = drawing.go_on_from(self._refills(step))
        self._drawings[step] = drawing
        return drawing

    async def _collect_after(
        self, before: "asyncio.Task[CollectedBatch] | None", step: int, state: CurriculumState
    ) -> CollectedBatch:
        if before is not None:
            state = (await asyncio.shield(before)).curriculum
        drawing = Drawing(self._tasks, self._curriculum, state, step)
        if isinstance(self._curriculum, ShuffledPasses):
            # replacements are drawn elsewhere, so that the pass still contains every task once
            drawing.draw_up_to(self._recipe.run.tasks_per_step)
            drawing.go_on_from(self._refills(step))
        return await self._collect(step, drawing)

    def _refills(self, step: int) -> CurriculumState:
        """The state that a step's replacement tasks are drawn from; the curriculum's own is not advanced."""
        return CurriculumState(seed=step_seed(self._recipe.seed, step))

    async def _collect(self, step: int, drawing: Drawing) -> CollectedBatch:
        started = time.perf_counter()
        is_wanted = _teaches if self._recipe.rollout.dynamic_sampling else _is_any
        shares = await gather_from_ranks(self._ranks, self._play(step, drawing, is_wanted), "rollouts")
        for number, share in enumerate(shares):
            if number != self._ranks.number:  # this rank's own groups were written as they finished
                for group in share.groups:
                    self._on_group(step, group)
        drawing.draw_up_to(max(share.num_drawn for share in shares))
        played = [group for share in shares for group in share.groups]
        played.sort(key=lambda group: drawing.order[group.task.id])
        if self._starts_inside_plans:
            self._plan_starts = self._plan_starts.noted(map(_as_noted, played))
        predicted = [drawing.predicted(group.task) for group in played]
        batch = CollectedBatch(
            step=step,
            groups=tuple(group for group in played if is_wanted(group)),
            played=tuple(played),
            progress=total_progress([share.progress for share in shares]),
            curriculum=drawing.state,
            plan_starts=self._plan_starts,
            temperatures=self._temperatures,
            predicted=tuple(chance for chance in predicted if chance is not None),
            seconds=time.perf_counter() - started,
        )
        batch = replace(batch, curriculum=_noted(self._curriculum, drawing.state, batch))
        if self._recipe.rollout.temperature_by_family:
            self._temperatures = self._temperatures_after(batch)
        return replace(batch, temperatures=self._temperatures)

    def _temperatures_after(self, batch: CollectedBatch) -> FamilyTemperatures:
        estimates = Estimates(self._families, batch.curriculum.record, batch.step)
        num_members = self._recipe.rollout.group_size
        return self._temperatures.after(map(_as_sampled, batch.played), estimates, num_members)

    async def _play(self, step: int, drawing: Drawing, is_wanted: Callable[[Group], bool]) -> _Share:
        collector = self._new_collector(step, self._plan_starts, self._temperatures)
        num_groups = len(rank_share(self._ranks, self._recipe.run.tasks_per_step))
        tasks = _DrawnTasks(
            drawing,
            self._places(step),
            num_first=self._recipe.run.tasks_per_step,
            most=self._num_drawn,
        )
        played: list[Group] = []

        async def collect(num_wanted: int) -> None:
            most = tasks.most - drawing.num_drawn if played else self._num_drawn - num_groups
            collecting = collector.collecting(
                tasks,
                num_wanted,
                is_wanted=is_wanted,
                num_ahead=self._num_ahead_of(num_wanted, most),
            )
            async with collecting as groups:
                async for group in groups:
                    self._on_group(step, group)
                    played.append(group)
            drawing.take_back(collector.progress.num_groups_unneeded)
            self._flat_share = 1 - sum(map(is_wanted, played)) / max(len(played), 1)

        async with self._shown(collector.progress):
            await collect(num_groups)
            num_missing = fewest_groups(num_groups) - sum(map(is_wanted, played))
            if num_missing > 0 and self._recipe.rollout.dynamic_sampling:
                tasks.most = MAX_ROUNDS * self._num_drawn
                await collect(num_missing)
        return _Share(tuple(played), drawing.num_drawn, collector.progress)

    def _num_ahead_of(self, num_groups: int, most: int) -> int:
        """How many replacements are started at once with this many groups."""
        return num_replaced(num_groups, self._flat_share, most if self._starts_replacements else 0)

    def _places(self, step: int) -> Iterator[int]:
        """This rank's places in the drawing order: its share of the batch, then those no rank has played."""
        num_first = self._recipe.run.tasks_per_step
        yield from rank_share(self._ranks, num_first)
        for number in self._ranks.numbers(f"refills of step {step}"):
            yield num_first + number


class _DrawnTasks:
    """The tasks at these places of a drawing, below `most`; once that is raised, it goes on."""

    def __init__(self, drawing: Drawing, places: Iterator[int], *, num_first: int, most: int) -> None:
        """`num_first`: tasks that the batch must have; replacements may run out."""
        self.most = most
        self._num_first = num_first
        self._drawing = drawing
        self._places = places
        self._place: int | None = None
        """The next place, once it is known."""

    def __iter__(self) -> Iterator[Task]:
        return self

    def __next__(self) -> Task:
        place = next(self._places) if self._place is None else self._place
        self._place = place
        if place >= self.most:
            raise StopIteration
        try:
            task = self._drawing.task(place)
        except NothingLeft:
            if place < self._num_first:
                raise
            raise StopIteration from None
        self._place = None
        return task


def _fewest(tasks: Sequence[Task], curriculum: Curriculum) -> int:
    """The fewest tasks that a step can draw from: those of the rarest difficulty, if it may draw it alone."""
    if isinstance(curriculum, ByLearnability):
        return len(tasks)
    return min(Counter(task.difficulty for task in tasks).values())


def fewest_groups(num_groups: int) -> int:
    """The fewest groups with a learning signal that an update of this many groups should have."""
    return math.ceil(num_groups / 4)


def num_replaced(num_groups: int, flat_share: float, most: int) -> int:
    """How many replacements a batch will need, with some reserve; at most `most`.

    If a share of f is flat, n groups that teach take n / (1 - f) draws, give or take √(n f) / (1 - f).
    """
    num_drawn = (num_groups + math.sqrt(num_groups * flat_share)) / max(1 - flat_share, 1e-9)
    return min(math.ceil(num_drawn) - num_groups, most)


def most_drawn(num_tasks: int, rollout: RolloutConfig) -> int:
    """The largest number of tasks that one step may draw, replacements included."""
    return round(num_tasks * (rollout.max_draws if rollout.dynamic_sampling else 1.0))


def _teaches(group: Group) -> bool:
    return has_signal([reward.total for reward in group.rewards])


def _is_any(group: Group) -> bool:
    return True


def _num_through(group: Group) -> int:
    return sum(reached_goal(*pair) for pair in zip(group.trajectories, group.rewards, strict=True))


def _as_noted(group: Group) -> PlayedGroup:
    return PlayedGroup(group.task, group.num_given, _num_through(group) / len(group.rewards))


def _as_sampled(group: Group) -> SampledGroup:
    turns = [turn for member in group.trajectories for turn in member.turns if not turn.is_given]
    num_malformed = sum(turn.parsed.error is not None for turn in turns)
    return SampledGroup(group.task.family, _teaches(group), num_malformed / max(len(turns), 1))


def _noted(curriculum: Curriculum, state: CurriculumState, batch: CollectedBatch) -> CurriculumState:
    """The state after the outcomes of the batch."""
    for group in batch.played if isinstance(curriculum, BySuccess) else ():
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
            if not group.num_given:
                is_success = succeeded(trajectory, reward)
                state = note(curriculum, state, group.task.difficulty, is_success)
    return replace(state, record=with_outcomes(state.record, batch.outcomes()))
