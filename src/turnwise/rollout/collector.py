"""The collector: plays groups of episodes concurrently and replaces what is lost to infrastructure."""

import asyncio
import contextlib
import hashlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from turnwise.rewards import succeeded
from turnwise.rollout.collection_counts import CountingToolbox, Progress
from turnwise.rollout.draw_order import DrawOrder
from turnwise.rollout.earlier_attempts import continues
from turnwise.rollout.pace import Pace, Slots
from turnwise.types import (
    Failure,
    Fault,
    Group,
    Reward,
    Stop,
    Task,
    Trajectory,
)
from turnwise.types.protocols import EngineDown, EnvironmentDown, RewardDown, Rewarder, Toolbox

Player = Callable[[Task, Toolbox, str, int, Sequence[Trajectory]], Awaitable[Trajectory]]
"""`player(task, toolbox, episode_id, seed, lost)` plays one episode, or plays it again after its `lost`
attempts; see `episode.player`."""

Lease = Callable[[Task, str], AbstractAsyncContextManager[Toolbox]]
"""`lease(task, episode_id)`: the toolbox of the task for one episode. Raises LeaseFailed or
EnvironmentDown."""


class LeaseFailed(Exception):
    """No tools for the episode because of infrastructure; the episode is retried."""


class CollectionFailed(Exception):
    """Too many consecutive groups were lost, or all of them: an engine, server or reward is down."""


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """The settings of a collection."""

    group_size: int = 8
    num_parallel_episodes: int = 64
    """Maximum number of episodes at the same time; some wait for tools while others sample."""
    num_retries: int = 2
    """Retries of a member lost to infrastructure; a retry has a fresh lease."""
    max_dropped_in_a_row: int = 16
    """Consecutive lost groups that end the collection, because an engine or a server is down."""
    seed: int = 0


class Collector:
    """Plays groups of episodes."""

    def __init__(
        self,
        player: Player,
        lease: Lease,
        rewarder: Rewarder,
        plan: CollectionPlan,
        pace: Pace | None = None,
    ) -> None:
        self._player = player
        self._lease = lease
        self._rewarder = rewarder
        self._plan = plan
        self._pace = pace
        self.progress = Progress()

    @contextlib.asynccontextmanager
    async def collecting(
        self,
        tasks: Iterable[Task],
        num_groups: int,
        *,
        is_wanted: Callable[[Group], bool] = lambda _: True,
        num_ahead: int = 0,
    ) -> AsyncIterator[AsyncIterator[Group]]:
        """Complete groups in the order they finish, until `num_groups` are wanted or no tasks are left.

            async with collector.collecting(tasks, 16) as groups:
                async for group in groups: ...

        A group that cannot be completed is dropped, and another task is drawn. A group that is not wanted is
        yielded too, and another task is drawn as well. `num_ahead` groups are started at once in addition, so
        that replacements need not wait for what they replace; those that prove unneeded are cancelled.
        Leaving the block cancels all episodes in flight and returns all leases.
        """
        done: asyncio.Queue[Group | Exception | None] = asyncio.Queue()
        running = self._run(iter(tasks), num_groups, num_ahead, is_wanted, done)
        runner = asyncio.create_task(running, name="collector")
        try:
            yield _until_done(done)
        finally:
            runner.cancel()
            await asyncio.wait([runner])

    async def _run(
        self,
        source: Iterator[Task],
        num_groups: int,
        num_ahead: int,
        is_wanted: Callable[[Group], bool],
        done: "asyncio.Queue[Group | Exception | None]",
    ) -> None:
        try:
            await self._run_groups(source, num_groups, num_ahead, is_wanted, done)
        except ExceptionGroup as errors:
            # CollectionFailed, or a bug here or in the user's reward: raised unwrapped.
            done.put_nowait(_innermost(errors))
        except (EngineDown, ValueError) as error:  # before any episode has started
            done.put_nowait(error)
        else:
            done.put_nowait(None)

    async def _run_groups(
        self,
        source: Iterator[Task],
        num_groups: int,
        num_ahead: int,
        is_wanted: Callable[[Group], bool],
        done: "asyncio.Queue[Group | Exception | None]",
    ) -> None:
        pace = self._pace or Slots(self._plan.num_parallel_episodes).pace()
        order = DrawOrder(num_groups)
        finished: asyncio.Queue[tuple[int, Group | Failure]] = asyncio.Queue()
        num_dropped_in_a_row = 0
        playing: list[asyncio.Task[None]] = []
        async with pace.collection(), asyncio.TaskGroup() as running:

            def start(count: int) -> None:
                for task in itertools.islice(source, count):
                    pace.enter(self._plan.group_size)
                    group = self._play_group(task, order.start(), pace, finished)
                    playing.append(running.create_task(group, name=f"group {task.id}"))

            start(num_groups + num_ahead)
            while order.is_playing:
                place, outcome = await finished.get()
                if isinstance(outcome, Group):
                    num_dropped_in_a_row = 0
                    belonging = order.finish(place, outcome, is_wanted=is_wanted(outcome))
                else:
                    num_dropped_in_a_row += 1
                    self._count_dropped(outcome, num_dropped_in_a_row)
                    belonging = order.finish(place, None, is_wanted=False)
                for group in belonging:
                    self.progress.num_groups += 1
                    done.put_nowait(group)
                start(order.num_missing)
                pace.leave()
            self.progress.num_groups_unneeded = order.num_unneeded
            for unneeded in playing:
                unneeded.cancel()
            progress = self.progress
            if progress.num_groups_dropped and not progress.num_groups:
                text = f"all {progress.num_groups_dropped} groups were lost to infrastructure; the last one: "
                raise CollectionFailed(text + progress.last_failure)

    def _count_dropped(self, failure: Failure, num_in_a_row: int) -> None:
        self.progress.num_groups_dropped += 1
        if num_in_a_row >= self._plan.max_dropped_in_a_row:
            text = f"{num_in_a_row} groups in a row were lost to infrastructure; the last one: "
            raise CollectionFailed(text + failure.message)

    async def _play_group(
        self, task: Task, number: int, pace: Pace, finished: "asyncio.Queue[tuple[int, Group | Failure]]"
    ) -> None:
        num_playing = self._plan.group_size

        async def play(member: int) -> tuple[Trajectory, Reward] | Failure:
            nonlocal num_playing
            outcome = await self._play_member(task, (number, member), pace)
            num_playing -= 1
            if num_playing:  # for the last member, `_run_groups` leaves after it has replaced the group
                pace.leave()
            return outcome

        async with asyncio.TaskGroup() as group:
            members = [
                group.create_task(play(member), name=f"{task.id} member {member}")
                for member in range(self._plan.group_size)
            ]
        outcomes = [member.result() for member in members]
        failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
        played = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
        if failures:
            finished.put_nowait((number, failures[0]))
        else:
            trajectories, rewards = zip(*played, strict=True)
            finished.put_nowait((number, Group(task, tuple(trajectories), tuple(rewards))))

    async def _play_member(
        self, task: Task, place: tuple[int, int], pace: Pace
    ) -> tuple[Trajectory, Reward] | Failure:
        """Play one member, with retries on a fresh lease after infrastructure faults, or the last failure."""
        failure = Failure(task.id, Stop.TOOL_DOWN, "never started")
        lost: list[Trajectory] = []
        queued_at = time.perf_counter()
        for attempt in range(self._plan.num_retries + 1):
            async with pace.slot(place):
                queue_seconds = time.perf_counter() - queued_at
                outcome = await self._play_once(task, place[1], attempt, lost)
            if not isinstance(outcome, Failure):
                trajectory, reward = outcome
                is_redrawn = not all(continues(trajectory, attempt) for attempt in lost)
                return replace(trajectory, queue_seconds=queue_seconds, is_redrawn=is_redrawn), reward
            failure = outcome
            if failure.lost is not None:
                lost.append(failure.lost)
            self.progress.failures[failure.stop] += 1
            self.progress.lost_by_family[task.family] += 1
            self.progress.last_failure = failure.message
        return failure

    async def _play_once(
        self, task: Task, member: int, attempt: int, lost: Sequence[Trajectory]
    ) -> tuple[Trajectory, Reward] | Failure:
        progress = self.progress
        seed = member_seed(self._plan.seed, task, member)
        episode_id = f"{task.id}/{member}.{attempt}"
        trajectory: Trajectory | None = None
        progress.num_started += 1
        progress.started_by_family[task.family] += 1
        progress.num_in_flight += 1
        try:
            async with progress.leased(self._lease(task, episode_id)) as toolbox:
                posed = toolbox.environment.posed(task)
                counted = CountingToolbox(toolbox, progress)
                trajectory = await self._player(posed, counted, episode_id, seed, lost)
            if trajectory.stop.is_infrastructure:
                return Failure(task.id, trajectory.stop, _reason(trajectory), trajectory)
            reward = await self._rewarder.score(trajectory)
            is_success = succeeded(trajectory, reward)
        except LeaseFailed as error:
            return Failure(task.id, Stop.TOOL_DOWN, str(error))
        except EnvironmentDown as error:  # before the first turn
            return Failure(task.id, Stop.ENVIRONMENT_DOWN, str(error))
        except RewardDown as error:
            return Failure(task.id, Stop.REWARD_DOWN, str(error), trajectory)
        finally:
            progress.num_in_flight -= 1
        progress.num_finished += 1
        progress.num_tokens += sum(turn.num_sampled for turn in trajectory.turns)
        progress.num_successes += is_success
        progress.num_inside_plans += trajectory.num_given > 0
        return trajectory, reward


def member_seed(seed: int, task: Task, member: int) -> int:
    """The seed of a member: equal in every run and for every retry."""
    text = f"{seed}:{task.id}:{task.seed}:{member}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def step_seed(seed: int, step: int) -> int:
    """A separate random stream for every step."""
    digest = hashlib.blake2b(f"{seed}/step/{step}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def _reason(trajectory: Trajectory) -> str:
    """The message of the first infrastructure fault."""
    for _, result in trajectory.calls:
        if result.fault is Fault.INFRA:
            return result.content
    if trajectory.stop in (Stop.ENVIRONMENT_DOWN, Stop.USER_DOWN) and trajectory.losses:
        return trajectory.losses[-1].message
    return f"episode {trajectory.episode_id} ended in {trajectory.stop}"


async def _until_done(done: "asyncio.Queue[Group | Exception | None]") -> AsyncIterator[Group]:
    while (item := await done.get()) is not None:
        if isinstance(item, Exception):
            raise item
        yield item


def _innermost(errors: ExceptionGroup[Exception]) -> Exception:
    first = errors.exceptions[0]
    return _innermost(first) if isinstance(first, ExceptionGroup) else first
