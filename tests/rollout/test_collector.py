"""Groups are complete under faults, retries, refills and cancellation, and the counts add up."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.rollout.stage import call, gathered, leasing, notebook, script, scripted, small_chat, tasks
from turnwise.engines.scripted import ScriptedEngine
from turnwise.mcp.calls.cassette import Cassette, Mode
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector, member_seed
from turnwise.rollout.pace import Free, Slots
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.types import Group, Reward, Stop, Task, Trajectory
from turnwise.types.protocols import EngineDown, RewardDown

CHAT = small_chat()
TASKS = tasks(20)


def turns(one: Task) -> list[tuple[int, ...]]:
    return script(CHAT, [call("write", text=one.id)], [call("read")], "done")


def playing_with(engine: ScriptedEngine) -> Any:
    return player(engine, CHAT, EpisodeLimits())


def collector_on(pool: Pool, plan: CollectionPlan, played: list[Task]) -> Collector:
    engine = scripted(CHAT, pool, played, turns)
    return Collector(playing_with(engine), leasing(pool), Rewards(), plan)


@asynccontextmanager
async def collector(
    plan: CollectionPlan, played: list[Task] = TASKS, **options: Any
) -> AsyncIterator[Collector]:
    async with nothing_leaks(), Pool(notebook(**options)) as pool:
        await pool.connect()
        yield collector_on(pool, plan, played)


def wrap_leases(collector: Collector, wrap: Callable[[str, Any], Any]) -> None:
    """Give the episodes of this collector `wrap(episode, toolbox)` in place of their toolbox."""
    inner = collector._lease

    @asynccontextmanager
    async def lease(one: Task, episode: str) -> AsyncIterator[Any]:
        async with inner(one, episode) as toolbox:
            yield wrap(episode, toolbox)

    collector._lease = lease


def check_complete(groups: list[Group], group_size: int) -> None:
    for group in groups:
        assert len(group.trajectories) == len(group.rewards) == group_size
        episodes = [trajectory.episode_id for trajectory in group.trajectories]
        members = [episode.rpartition("/")[2].partition(".")[0] for episode in episodes]
        assert members == [str(member) for member in range(group_size)], "every member once, in order"
        for trajectory in group.trajectories:
            assert trajectory.task is group.task
            assert not trajectory.stop.is_infrastructure
            read = trajectory.calls[1][1]
            assert read.content == f'["{group.task.id}"]', "an episode saw the state of another"
        assert all(reward.total == 1.0 for reward in group.rewards)


async def test_groups_are_complete_and_no_more_episodes_run_at_once_than_allowed() -> None:
    async with collector(CollectionPlan(group_size=4, num_parallel_episodes=3)) as playing:
        in_flight: list[int] = []

        def count(_: str, toolbox: Any) -> Any:
            in_flight.append(playing.progress.num_in_flight)
            return toolbox

        wrap_leases(playing, count)
        groups = await gathered(playing, TASKS, 5)
        assert len({group.task.id for group in groups}) == len(groups) == 5
        check_complete(groups, 4)
        progress = playing.progress
        assert (progress.num_started, progress.num_finished, progress.num_lost) == (20, 20, 0)
        assert progress.num_successes == 20
        assert max(in_flight) == 3


def test_members_have_different_seeds_that_are_equal_in_every_run() -> None:
    one, other = TASKS[:2]
    seeds = {member_seed(0, task, member) for task in (one, other) for member in range(8)}
    assert len(seeds) == 16
    assert member_seed(0, one, 3) == member_seed(0, tasks(1)[0], 3) != member_seed(1, one, 3)


async def test_no_episode_is_lost_or_duplicated_under_injected_faults() -> None:
    num_groups, group_size = 60, 4
    num_episodes = num_groups * group_size
    played = tasks(num_groups + 12)
    plan = CollectionPlan(group_size=group_size, num_parallel_episodes=64, num_retries=2)
    faults = {"fault_rate": 0.05, "num_retries": 0, "breaker_failures": 10_000}
    async with collector(plan, played, **faults) as playing:
        groups = await gathered(playing, played, num_groups)
        check_complete(groups, group_size)
        assert len({group.task.id for group in groups}) == len(groups) == num_groups
        progress = playing.progress
        assert progress.num_groups == num_groups
        assert progress.num_started == progress.num_finished + progress.num_lost
        assert progress.num_in_flight == progress.num_waiting_on_tools == 0
        assert set(progress.failures) == {Stop.TOOL_DOWN}
        # Two calls per episode at 5%: about one in ten is lost and retried.
        assert 0.04 < progress.num_lost / progress.num_started < 0.2
        # A member is lost after three consecutive faults, about 1 in 1,000: some groups may be dropped.
        surplus = progress.num_finished - num_episodes
        assert 0 <= surplus <= group_size * progress.num_groups_dropped
        episodes = [trajectory.episode_id for group in groups for trajectory in group.trajectories]
        assert Counter(episode.rpartition(".")[2] for episode in episodes)["1"] > num_episodes / 40


class Broken:
    """A toolbox whose provider is down."""

    busy_seconds = 0.0

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.tools, self.losses = inner.tools, ()
        self.environment = inner.environment

    async def call(self, calls: Any, *, max_tokens: int | None = None) -> Any:
        return await self._inner.call([call("fail", how="provider")])


async def test_a_group_that_cannot_be_completed_is_dropped_and_another_task_is_drawn() -> None:
    # One episode at a time: t2 is completed between the two drops, so they are not in a row.
    plan = CollectionPlan(group_size=2, num_retries=0, num_parallel_episodes=1, max_dropped_in_a_row=2)
    async with collector(plan) as playing:
        wrap_leases(playing, lambda episode, box: Broken(box) if episode[:4] in ("t1/1", "t3/1") else box)
        groups = await gathered(playing, TASKS, 3)
        assert {group.task.id for group in groups} == {"t0", "t2", "t4"}
        check_complete(groups, 2)
        progress = playing.progress
        assert (progress.num_groups, progress.num_groups_dropped, progress.num_lost) == (3, 2, 2)


async def test_an_unwanted_group_is_yielded_and_another_task_is_drawn() -> None:
    async with collector(CollectionPlan(group_size=2, num_parallel_episodes=4)) as playing:
        source, wanted = iter(TASKS), {"t1", "t4", "t5", "t6", "t7"}
        async with playing.collecting(source, 3, is_wanted=lambda one: one.task.id in wanted) as groups:
            ids = [group.task.id async for group in groups]
        # t0 and t2 are replaced by t3 and t4, and t3 by t5: three are wanted, and no further task was drawn
        assert sorted(ids) == ["t0", "t1", "t2", "t3", "t4", "t5"]
        assert len(list(source)) == len(TASKS) - 6


class Failing:
    """A reward that raises this error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def score(self, trajectory: Trajectory) -> Reward:
        raise self._error


async def test_a_judge_or_engine_that_stays_down_ends_the_collection_with_its_reason() -> None:
    plan = CollectionPlan(group_size=2, num_retries=0, max_dropped_in_a_row=2)
    async with collector(plan) as playing:
        playing._rewarder = Failing(RewardDown("the judge does not answer"))
        with pytest.raises(CollectionFailed, match=r"2 groups in a row .* the judge does not answer"):
            await gathered(playing, TASKS, 4)
        assert playing.progress.failures[Stop.REWARD_DOWN] >= 2

    class Down(ScriptedEngine):
        async def complete(self, prompt_ids: Any, sampling: Any, seed: int) -> Any:
            raise EngineDown("out of memory")

    async with collector(plan) as playing:
        playing._player = playing_with(Down(lambda text: (), 0))
        with pytest.raises(CollectionFailed, match=r"2 groups in a row were lost"):
            await gathered(playing, TASKS, 4)


async def test_a_bug_in_a_reward_is_raised_unwrapped() -> None:
    async with collector(CollectionPlan(group_size=3)) as playing:
        playing._rewarder = Failing(ZeroDivisionError("bug of the user"))
        with pytest.raises(ZeroDivisionError, match="bug of the user"):
            await gathered(playing, TASKS, 1)


@pytest.mark.parametrize("leave_after", [0, 1])
async def test_leaving_early_returns_every_lease(leave_after: int) -> None:
    async with collector(CollectionPlan(group_size=4, num_parallel_episodes=16)) as playing:
        async with playing.collecting(TASKS, 20) as groups:
            for _ in range(leave_after):
                await anext(groups)
        assert playing.progress.num_in_flight == 0
        # Cancelled episodes left no state behind, and the same episodes can be leased again.
        check_complete(await gathered(playing, TASKS, 2), 4)


async def test_a_recorded_collection_replays_exactly_without_servers(tmp_path: Path) -> None:
    seen = []
    for specs, mode in ((notebook(), Mode.RECORD), ((), Mode.REPLAY)):
        async with Pool(specs, cassette=Cassette(tmp_path / "calls.jsonl", mode)) as pool:
            await pool.connect()
            playing = collector_on(pool, CollectionPlan(group_size=3), TASKS[:4])
            groups = sorted(await gathered(playing, TASKS[:4], 4), key=lambda group: group.task.id)
            check_complete(groups, 3)
            seen.append([trajectory.token_ids for group in groups for trajectory in group.trajectories])
    assert len(seen[0]) == 12
    assert seen[0] == seen[1]


async def test_slots_go_to_earlier_collections_first_and_a_cancelled_wait_loses_none() -> None:
    slots, order = Slots(1), list[str]()
    earlier, later = slots.pace(), slots.pace()

    async def play(pace: Free, name: str) -> None:
        async with pace.slot((0, 0)):
            order.append(name)
            await asyncio.sleep(0)

    async with earlier.slot((0, 0)):
        waiting = [asyncio.create_task(play(later, "later")), asyncio.create_task(play(later, "gone"))]
        await asyncio.sleep(0)
        waiting.append(asyncio.create_task(play(earlier, "earlier")))
        await asyncio.sleep(0)
        waiting[1].cancel()
    await asyncio.wait(waiting)
    assert order == ["earlier", "later"]
    # granted a slot and cancelled at the same moment
    async with later.slot((0, 0)):
        given = asyncio.create_task(play(later, "given"))
        await asyncio.sleep(0)
    given.cancel()
    await asyncio.wait([given])
    await asyncio.wait_for(play(earlier, "after"), 1)
    assert order == ["earlier", "later", "after"]
