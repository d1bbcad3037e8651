"""Groups are complete under faults, retries, refills and cancellation, and the counts add up."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.rollout.stage import call, leasing, notebook, script, scripted, small_chat, task
from turnwise.engines.scripted import ScriptedEngine
from turnwise.mcp.cassette import Cassette, Mode
from turnwise.mcp.pool import Pool
from turnwise.protocols import EngineDown, RewardDown
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector, Free, Slots, member_seed
from turnwise.rollout.episode import EpisodeLimits, player
from turnwise.types import Group, Reward, Sampling, Stop, Task, Trajectory

CHAT = small_chat()


def playing_with(engine: ScriptedEngine) -> Any:
    return player(engine, CHAT, EpisodeLimits(), Sampling())


def turns(one: Task) -> list[tuple[int, ...]]:
    return script(CHAT, [call("write", text=one.id)], [call("read")], "done")


@asynccontextmanager
async def collector(tasks: Iterable[Task], plan: CollectionPlan, **options: Any) -> AsyncIterator[Collector]:
    async with nothing_leaks(), Pool(notebook(**options)) as pool:
        await pool.connect()
        engine = scripted(CHAT, pool, list(tasks), turns)
        yield Collector(playing_with(engine), leasing(pool), Rewards(), plan)


async def gathered(playing: Collector, tasks: Iterable[Task], num_groups: int) -> list[Group]:
    async with playing.collecting(tasks, num_groups) as groups:
        return [group async for group in groups]


def check_whole(groups: list[Group], group_size: int) -> None:
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


async def test_groups_are_complete_and_every_task_is_played_once() -> None:
    tasks = [task(f"t{number}") for number in range(6)]
    async with collector(tasks, CollectionPlan(group_size=4, num_parallel_episodes=8)) as playing:
        groups = await gathered(playing, tasks, 5)
        assert len({group.task.id for group in groups}) == len(groups) == 5
        check_whole(groups, 4)
        assert all(reward.total == 1.0 for group in groups for reward in group.rewards)
        progress = playing.progress
        assert (progress.num_started, progress.num_finished, progress.num_lost) == (20, 20, 0)
        assert progress.num_successes == 20


async def test_no_more_episodes_run_at_once_than_allowed() -> None:
    async def main() -> None:
        tasks = [task(f"t{number}") for number in range(4)]
        most = 0
        async with collector(tasks, CollectionPlan(group_size=4, num_parallel_episodes=3)) as playing:
            lease = playing._lease

            @asynccontextmanager
            async def counted(one: Task, episode: str) -> AsyncIterator[Any]:
                nonlocal most
                async with lease(one, episode) as toolbox:
                    most = max(most, playing.progress.num_in_flight)
                    yield toolbox

            playing._lease = counted
            await gathered(playing, tasks, 4)
        assert most == 3

    await main()


def test_members_have_different_seeds_that_are_equal_in_every_run() -> None:
    seeds = {member_seed(0, task(name), member) for name in "ab" for member in range(8)}
    assert len(seeds) == 16
    assert member_seed(0, task("a"), 3) == member_seed(0, task("a"), 3) != member_seed(1, task("a"), 3)


@pytest.mark.parametrize("num_groups", [125, pytest.param(500, marks=pytest.mark.slow)])
async def test_no_episode_is_lost_or_duplicated_under_injected_faults(num_groups: int) -> None:
    num_episodes = 4 * num_groups
    tasks = [task(f"t{number}") for number in range(num_groups + num_groups // 5)]
    plan = CollectionPlan(group_size=4, num_parallel_episodes=64, num_retries=2)
    options = {"fault_rate": 0.05, "num_retries": 0, "breaker_failures": 10_000}
    async with collector(tasks, plan, **options) as playing:
        groups = await gathered(playing, tasks, num_groups)
        check_whole(groups, 4)
        assert len({group.task.id for group in groups}) == len(groups) == num_groups
        progress = playing.progress
        assert progress.num_groups == num_groups
        assert progress.num_started == progress.num_finished + progress.num_lost
        assert progress.num_in_flight == progress.num_waiting_on_tools == 0
        assert set(progress.failures) == {Stop.TOOL_DOWN}
        # Two calls per episode at 5%: about one in ten is lost and retried.
        assert 0.05 < progress.num_lost / progress.num_started < 0.2
        # A member is lost after three consecutive faults, about 1 in 1,000: some groups may be dropped.
        dropped = progress.num_groups_dropped
        assert progress.num_finished >= num_episodes
        assert progress.num_finished <= num_episodes + 4 * dropped
        retried = Counter(
            trajectory.episode_id.rpartition(".")[2] for group in groups for trajectory in group.trajectories
        )
        assert retried["1"] > num_episodes / 40
        assert all(reward.total == 1.0 for group in groups for reward in group.rewards)


async def test_a_group_that_cannot_be_completed_is_dropped_and_another_task_is_drawn() -> None:
    async def main() -> None:
        tasks = [task(f"t{number}") for number in range(5)]
        async with collector(tasks, CollectionPlan(group_size=2, num_retries=1)) as playing:
            inner = playing._lease

            @asynccontextmanager
            async def breaking(one: Task, episode: str) -> AsyncIterator[Any]:
                async with inner(one, episode) as toolbox:
                    if one.id == "t1" and episode.startswith("t1/1"):
                        yield Broken(toolbox)
                    else:
                        yield toolbox

            playing._lease = breaking
            groups = await gathered(playing, tasks, 3)
            assert {group.task.id for group in groups} == {"t0", "t2", "t3"}
            check_whole(groups, 2)
            progress = playing.progress
            assert (progress.num_groups, progress.num_groups_dropped) == (3, 1)
            assert progress.num_lost == 2

    await main()


class Broken:
    """A toolbox whose provider is down."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.tools, self.losses = inner.tools, ()

    async def call(self, calls: Any) -> Any:
        return await self._inner.call([call("fail", how="provider")])


async def test_an_unwanted_group_is_yielded_and_another_task_is_drawn() -> None:
    tasks = [task(str(number)) for number in range(10)]

    async def run() -> tuple[list[str], int]:
        async with collector(tasks, CollectionPlan(group_size=2, num_parallel_episodes=4)) as playing:
            source = iter(tasks)
            wanted = {"1", "4", "5", "6", "7"}
            async with playing.collecting(source, 3, is_wanted=lambda one: one.task.id in wanted) as groups:
                ids = [group.task.id async for group in groups]
            return ids, len(list(source))

    ids, num_left = await run()
    # 0 and 2 are replaced by 3 and 4, and 3 by 5: three are wanted, and no further task was drawn
    assert sorted(ids) == ["0", "1", "2", "3", "4", "5"]
    assert num_left == 4


async def test_an_unreachable_judge_is_an_infrastructure_fault_and_never_a_zero() -> None:
    class Unreachable:
        async def score(self, trajectory: Trajectory) -> Reward:
            raise RewardDown("the judge does not answer")

    tasks = [task(f"t{number}") for number in range(3)]
    async with collector(
        tasks, CollectionPlan(group_size=2, num_retries=0, max_dropped_in_a_row=2)
    ) as playing:
        playing._rewarder = Unreachable()
        with pytest.raises(CollectionFailed, match=r"2 groups in a row .* the judge does not answer"):
            await gathered(playing, tasks, 1)
        assert playing.progress.failures[Stop.REWARD_DOWN] >= 2


async def test_an_engine_that_stays_down_ends_the_collection_with_its_reason() -> None:
    class Down(ScriptedEngine):
        async def complete(self, prompt_ids: Any, sampling: Any, seed: int) -> Any:
            raise EngineDown("out of memory")

    tasks = [task(f"t{number}") for number in range(40)]
    async with collector(tasks, CollectionPlan(group_size=2, max_dropped_in_a_row=3)) as playing:
        playing._player = playing_with(Down(lambda text: (), 0))
        with pytest.raises(CollectionFailed, match="3 groups in a row were lost"):
            await gathered(playing, tasks, 4)


async def test_a_bug_in_a_reward_is_raised_unwrapped() -> None:
    class Buggy:
        async def score(self, trajectory: Trajectory) -> Reward:
            raise ZeroDivisionError("bug of the user")

    tasks = [task("t0")]
    async with collector(tasks, CollectionPlan(group_size=3)) as playing:
        playing._rewarder = Buggy()
        with pytest.raises(ZeroDivisionError, match="bug of the user"):
            await gathered(playing, tasks, 1)


@pytest.mark.parametrize("leave_after", [0, 1])
async def test_leaving_early_returns_every_lease(leave_after: int) -> None:
    tasks = [task(f"t{number}") for number in range(20)]
    async with collector(tasks, CollectionPlan(group_size=4, num_parallel_episodes=16)) as playing:
        async with playing.collecting(tasks, 20) as groups:
            for _ in range(leave_after):
                await anext(groups)
        assert playing.progress.num_in_flight == 0
        # Cancelled episodes left no state behind, and the same episodes can be leased again.
        check_whole(await gathered(playing, tasks, 2), 4)


async def test_a_recorded_collection_replays_exactly_without_servers(tmp_path: Path) -> None:
    """Invariant 9: replay reproduces observations and rewards."""

    tasks = [task(f"t{number}") for number in range(4)]
    path = tmp_path / "calls.jsonl"
    seen = []
    for specs, mode in ((notebook(), Mode.RECORD), ((), Mode.REPLAY)):
        async with Pool(specs, cassette=Cassette(path, mode)) as pool:
            await pool.connect()
            engine = scripted(CHAT, pool, tasks, turns)
            playing = Collector(playing_with(engine), leasing(pool), Rewards(), CollectionPlan(group_size=3))
            groups = sorted(await gathered(playing, tasks, 4), key=lambda group: group.task.id)
            assert len(groups) == 4
            seen.append(
                [
                    (trajectory.token_ids, [result.content for _, result in trajectory.calls], reward)
                    for group in groups
                    for trajectory, reward in zip(group.trajectories, group.rewards, strict=True)
                ]
            )
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
