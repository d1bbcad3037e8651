"""In lockstep, numbers do not depend on timing, and there is no deadlock."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.rollout.collection import collect
from tests.rollout.stage import call, gathered, leasing, notebook, script, scripted, small_chat, task, tasks
from tests.setup.resolved import resolved
from turnwise.config import Recipe
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector
from turnwise.rollout.lockstep import Lockstep
from turnwise.rollout.pace import Slots
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.setup.bench import Workbench
from turnwise.types import Stop, Task
from turnwise.types.protocols import Ask, EngineDown

CHAT = small_chat()
TASKS = tasks(3)


def turns(one: Task) -> list[tuple[int, ...]]:
    """Task t0 is done at once, t1 after one call, t2 after two."""
    calls = [[call("write", text=one.id)] for _ in range(int(one.id[1:]))]
    return script(CHAT, *calls, "done")


class Watched:
    """A scripted engine that records its batches; `hook` is called before every batch."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.batches: list[list[Ask]] = []
        self.num_forgotten = 0
        self.hook: Any = lambda: None
        self.is_down = False
        self.complete, self.publish, self.close = inner.complete, inner.publish, inner.close

    @property
    def batch_sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]

    def submit(self, asks: Sequence[Ask]) -> Any:
        self.hook()
        self.batches.append(list(asks))
        return self._inner.submit(asks)

    async def forget(self) -> None:
        if self.is_down:
            raise EngineDown("gone")
        self.num_forgotten += 1


@asynccontextmanager
async def lockstep(
    num_slots: int, played: Sequence[Task] = TASKS, seconds: float = 600.0, **plan: Any
) -> AsyncIterator[tuple[Collector, Watched]]:
    async with nothing_leaks(), Pool(notebook()) as pool:
        await pool.connect()
        engine = Watched(scripted(CHAT, pool, played, turns))
        pace = Lockstep(engine, num_slots, asyncio.Lock())
        playing = player(pace, CHAT, EpisodeLimits(seconds=seconds))
        plans = CollectionPlan(**{"group_size": 2, **plan})
        yield Collector(playing, leasing(pool), Rewards(), plans, pace), engine


async def test_collections_whose_tools_take_different_times_sample_the_same_bits() -> None:
    """With faults, retries, reused slots, a full cache and a warm cache."""
    collections = [
        await collect(delay_seed=1, fault_rate=0.1, is_warm=False),
        await collect(delay_seed=2, fault_rate=0.1, is_warm=True),
    ]
    first, second = [
        {one.episode_id: (one.token_ids, [x.hex() for x in one.logprobs], one.stop) for one in played}
        for played in collections
    ]
    assert len(first) == 10
    assert any(not episode.endswith(".0") for episode in first), "there was no retry"
    assert len({stop for _, _, stop in first.values()}) > 1
    assert first == second


async def test_a_round_contains_all_running_episodes_in_a_fixed_order() -> None:
    async with lockstep(6) as (collector, engine):
        assert len(await gathered(collector, TASKS, 3)) == 3
        assert engine.num_forgotten == 1
        # All six, then those whose task needs one call, then those whose task needs two.
        assert engine.batch_sizes == [6, 4, 2]
        for batch in engine.batches:
            assert batch == sorted(batch, key=lambda ask: (ask.prompt_ids, ask.seed))


async def test_a_free_slot_is_filled_before_the_next_round() -> None:
    async with lockstep(3) as (collector, engine):
        await gathered(collector, TASKS, 3)
        # t0 t0 t1 | t1 t1' t2 | t1' t2 t2' ... : never fewer than three while three are left
        assert engine.batch_sizes == [3, 3, 3, 2, 1]


async def test_a_replacement_group_joins_the_next_round() -> None:
    async with lockstep(8) as (collector, engine):
        wanted = collector.collecting(TASKS, 2, is_wanted=lambda group: group.task.id != "t0")
        async with wanted as groups:
            assert {group.task.id async for group in groups} == {"t0", "t1", "t2"}
        # t0 ends after the first round; t2 replaces it during the second turn of t1.
        assert engine.batch_sizes == [4, 4, 2, 2]


async def test_an_episode_that_times_out_while_it_waits_does_not_block_others() -> None:
    played = [task("t1")]
    async with lockstep(2, played, seconds=3, num_retries=1) as (collector, _):
        inner = collector._lease

        @asynccontextmanager
        async def slow(one: Task, episode: str) -> AsyncIterator[Any]:
            async with inner(one, episode) as toolbox:
                while episode == "t1/1.0" and not collector.progress.failures:
                    await asyncio.sleep(0.05)  # its partner waits longer than an episode may take
                yield toolbox

        collector._lease = slow
        [group] = await gathered(collector, played, 1)
        assert [trajectory.episode_id for trajectory in group.trajectories] == ["t1/0.1", "t1/1.0"]
        assert collector.progress.failures == {Stop.TIME_UP: 1}


async def test_a_collection_that_is_left_in_the_middle_of_a_round_does_not_affect_the_next() -> None:
    async with lockstep(4) as (collector, engine):
        arrived = asyncio.Event()
        engine.hook = arrived.set
        async with collector.collecting(TASKS, 3):
            await arrived.wait()
        engine.batches.clear()
        assert len(await gathered(collector, TASKS, 3)) == 3
        assert sum(engine.batch_sizes) == 2 * (1 + 2 + 3)


async def test_a_failed_engine_ends_the_collection() -> None:
    played = tasks(20)
    async with lockstep(4, played, num_retries=0) as (collector, engine):

        def fail() -> None:
            raise EngineDown("the machine is on fire")

        engine.hook = fail
        with pytest.raises(CollectionFailed, match="engine_down"):
            await gathered(collector, played, 20)
        engine.is_down = True
        with pytest.raises(EngineDown, match="gone"):
            await gathered(collector, played, 20)


async def test_fewer_processes_than_episodes_is_slower_but_no_deadlock() -> None:
    """An episode that waits for the server of another must not block that other one."""
    rollout = {"lockstep": True, "group_size": 2}
    recipe = Recipe.model_validate({"rollout": rollout, "engine": {"kind": "scripted"}})
    specs = notebook(isolation="process", max_processes=2, num_warm=0)
    async with Pool(specs) as pool, Rewards() as rewards:
        await pool.connect()
        assert pool.max_leases == 2
        engine = Watched(scripted(CHAT, pool, TASKS[:2], turns))
        bench = Workbench(resolved(recipe, train=TASKS), engine, CHAT, pool, rewards, Slots(8))
        # Two at once, like a validation during the next step: they run one after the other.
        both = [gathered(bench.collector(seed=seed), TASKS[:2], 2) for seed in (1, 2)]
        assert [len(groups) for groups in await asyncio.gather(*both)] == [2, 2]
        assert engine.num_forgotten == 2, "rollout.lockstep was ignored"
        assert engine.batch_sizes == [2, 2, 2] * 2
