"""In lockstep, numbers do not depend on timing, and there is no deadlock."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.mcp.leaks import nothing_leaks
from tests.rollout.stage import NOTEBOOK, call, leasing, notebook, script, scripted, small_chat, task
from turnwise.assembly.workbench import Workbench
from turnwise.config import Recipe
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import parse
from turnwise.protocols import Ask, EngineDown
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector, Slots
from turnwise.rollout.episode import EpisodeLimits, player
from turnwise.rollout.lockstep import Lockstep
from turnwise.types import Group, Sampling, Stop, Task

CHAT = small_chat()
COLLECTION = Path(__file__).with_name("collection.py")


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

    def submit(self, asks: Sequence[Ask]) -> Any:
        self.hook()
        self.batches.append(list(asks))
        return self._inner.submit(asks)

    async def forget(self) -> None:
        if self.is_down:
            raise EngineDown("gone")
        self.num_forgotten += 1


@asynccontextmanager
async def stage(
    tasks: Sequence[Task], num_slots: int, limits: EpisodeLimits | None = None, **plan: Any
) -> AsyncIterator[tuple[Collector, Watched]]:
    async with nothing_leaks(), Pool(notebook()) as pool:
        await pool.connect()
        engine = Watched(scripted(CHAT, pool, tasks, turns))
        pace = Lockstep(engine, num_slots, asyncio.Lock())
        playing = player(pace, CHAT, limits or EpisodeLimits(), Sampling())
        yield Collector(playing, leasing(pool), Rewards(), CollectionPlan(**plan), pace), engine


async def gathered(collector: Collector, tasks: Sequence[Task], num_groups: int) -> list[Group]:
    async with asyncio.timeout(60), collector.collecting(tasks, num_groups) as groups:
        return [group async for group in groups]


def numbered(count: int) -> list[Task]:
    return [task(f"t{number}") for number in range(count)]


def test_two_processes_whose_tools_take_different_times_sample_the_same_bits() -> None:
    """With faults, retries, reused slots, a full cache and a warm cache."""
    settings = [{"luck": 1, "fault_rate": 0.1}, {"luck": 2, "fault_rate": 0.1, "is_warm": True}]
    children = [
        subprocess.Popen([warm.heavy(), COLLECTION, json.dumps(setting)], stdout=subprocess.PIPE, text=True)
        for setting in settings
    ]
    first, second = [json.loads(child.communicate(timeout=300)[0]) for child in children]
    assert len(first["played"]) == 10
    assert any(not episode.endswith(".0") for episode in first["played"]), "there was no retry"
    assert len({episode["stop"] for episode in first["played"].values()}) > 1
    assert first["played"] == second["played"]


async def test_a_round_contains_all_running_episodes_in_a_fixed_order() -> None:
    tasks = numbered(3)
    async with stage(tasks, 6, group_size=2) as (collector, engine):
        groups = await gathered(collector, tasks, 3)
        assert len(groups) == 3
        assert engine.num_forgotten == 1
        # All six, then those whose task needs one call, then those whose task needs two.
        assert [len(batch) for batch in engine.batches] == [6, 4, 2]
        for batch in engine.batches:
            assert batch == sorted(batch, key=lambda ask: (ask.prompt_ids, ask.seed))


async def test_a_free_slot_is_filled_before_the_next_round() -> None:
    tasks = numbered(3)
    async with stage(tasks, 3, group_size=2) as (collector, engine):
        await gathered(collector, tasks, 3)
        # t0 t0 t1 | t1 t1' t2 | t1' t2 t2' ... : never fewer than three while three are left
        assert sum(len(batch) for batch in engine.batches) == 2 * (1 + 2 + 3)
        assert [len(batch) for batch in engine.batches] == [3, 3, 3, 2, 1]


async def test_a_replacement_group_joins_the_next_round() -> None:
    tasks = numbered(3)
    async with stage(tasks, 8, group_size=2) as (collector, engine):
        wanted = collector.collecting(tasks, 2, is_wanted=lambda group: group.task.id != "t0")
        async with wanted as groups:
            assert {group.task.id async for group in groups} == {"t0", "t1", "t2"}
        # t0 ends after the first round; t2 replaces it during the second turn of t1.
        assert [len(batch) for batch in engine.batches] == [4, 4, 2, 2]


async def test_an_episode_that_times_out_while_it_waits_does_not_block_others() -> None:
    async def main() -> None:
        tasks = [task("t1")]
        async with stage(tasks, 2, EpisodeLimits(seconds=3), group_size=2, num_retries=1) as (collector, _):
            inner = collector._lease

            @asynccontextmanager
            async def slow(one: Task, episode: str) -> AsyncIterator[Any]:
                async with inner(one, episode) as toolbox:
                    while episode == "t1/1.0" and not collector.progress.failures:
                        await asyncio.sleep(0.05)  # its partner waits longer than an episode may take
                    yield toolbox

            collector._lease = slow
            [group] = await gathered(collector, tasks, 1)
            assert [trajectory.episode_id for trajectory in group.trajectories] == ["t1/0.1", "t1/1.0"]
            assert collector.progress.failures == {Stop.TIME_UP: 1}

    await main()


async def test_the_next_collection_works_after_leaving_one_in_the_middle_of_a_round() -> None:
    tasks = numbered(3)
    async with stage(tasks, 4, group_size=2) as (collector, engine):
        arrived = asyncio.Event()
        engine.hook = arrived.set
        async with collector.collecting(tasks, 3):
            await arrived.wait()
        engine.batches.clear()
        assert len(await gathered(collector, tasks, 3)) == 3
        assert sum(len(batch) for batch in engine.batches) == 2 * (1 + 2 + 3)


async def test_a_failed_engine_ends_the_collection() -> None:
    tasks = numbered(20)
    async with stage(tasks, 4, group_size=2, num_retries=0) as (collector, engine):

        def fail() -> None:
            raise EngineDown("the machine is on fire")

        engine.hook = fail
        with pytest.raises(CollectionFailed, match="engine_down"):
            await gathered(collector, tasks, 20)
        engine.is_down = True
        with pytest.raises(EngineDown, match="gone"):
            await gathered(collector, tasks, 20)


async def test_fewer_processes_than_episodes_is_slower_but_no_deadlock() -> None:
    """An episode that waits for the server of another must not block that other one."""
    block = {
        "command": sys.executable,
        "args": [str(NOTEBOOK)],
        "turnwise": {"isolation": "process", "max_processes": 2, "num_warm": 0},
    }
    specs = parse({"notebook": block}, {}, directory=Path.cwd())
    settings = {"lockstep": True, "group_size": 2}
    recipe = Recipe.model_validate({"rollout": settings, "engine": {"kind": "scripted"}})

    tasks = numbered(2)
    async with AsyncExitStack() as exits:
        pool = await exits.enter_async_context(Pool(specs))
        await pool.connect()
        assert pool.max_leases == 2
        engine = Watched(scripted(CHAT, pool, tasks, turns))
        rewards = await exits.enter_async_context(Rewards())
        bench = Workbench(recipe, engine, CHAT, pool, rewards, Slots(8))
        # Two at once, like a validation during the next step: they run one after the other.
        both = [gathered(bench.collector(seed=seed), tasks, 2) for seed in (1, 2)]
        assert [len(groups) for groups in await asyncio.gather(*both)] == [2, 2]
        assert engine.num_forgotten == 2, "rollout.lockstep was ignored"
        assert [len(batch) for batch in engine.batches] == [2, 2, 2] * 2
