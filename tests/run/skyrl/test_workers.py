"""Two Ray workers play groups with real servers; one is killed, and no group is lost or duplicated."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("skyrl", reason="SkyRL is not installed: run `make test-skyrl`")

import ray
from ray._private.internal_api import free

from tests.mcp.leaks import descendants
from tests.run.skyrl.stage import MODEL, ModelClient, write_recipe
from turnwise.config import Recipe
from turnwise.run.skyrl.player import Order, OrderOutcome, Player
from turnwise.run.skyrl.workers import Workers
from turnwise.tasks.load import load

GROUP_SIZE = 2


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    # workers import the tests, and turnwise if it is not installed, from the same paths as this process
    there = os.environ | {"PYTHONPATH": os.pathsep.join(["src", ".", os.environ.get("PYTHONPATH", "")])}
    kept = {key: there[key] for key in ("PYTHONPATH", "HF_HUB_OFFLINE", "OMP_NUM_THREADS") if key in there}
    for attempt in range(4):
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": kept})
            break
        except Exception:  # all that Ray raises on a machine too busy to start it within 30 seconds
            ray.shutdown()
            if attempt == 3:
                raise
    yield
    ray.shutdown()


def orders_of(recipe: Recipe) -> list[Order]:
    assert recipe.tasks.train is not None
    return [
        Order(task, (), GROUP_SIZE, 1.0, 1.0, seed=3, policy_version=0) for task in load(recipe.tasks.train)
    ]


async def played_here(recipe: Recipe, orders: list[Order]) -> list[OrderOutcome]:
    client = ModelClient(recipe)
    player = Player(recipe, client, MODEL)
    outcomes = list(await asyncio.gather(*(player.play(order) for order in orders)))
    await player.close()
    await client.teardown()
    return outcomes


async def played_there(
    workers: Workers, orders: list[Order]
) -> tuple[list[OrderOutcome], set[int], set[int]]:
    """All outcomes; the processes of the killed worker, and those of the other."""
    pids = await asyncio.gather(*(actor.__ray_call__.remote(_pid) for actor in workers.actors))
    playing = [asyncio.ensure_future(workers.play(order)) for order in orders]
    # wait until both have servers and one order is done
    while not (any(order.done() for order in playing) and all(descendants(pid) for pid in pids)):
        await asyncio.wait(playing, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(0.05)
    assert not all(order.done() for order in playing)
    theirs = descendants(pids[0])
    os.kill(pids[0], signal.SIGKILL)
    outcomes = list(await asyncio.gather(*playing))
    others = descendants(pids[1])
    await workers.close()
    return outcomes, theirs, others


def _pid(player: Any) -> int:
    return os.getpid()


def ids_of(outcomes: list[OrderOutcome]) -> list[list[tuple[int, ...]]]:
    return [
        [trajectory.token_ids for trajectory in outcome.group.trajectories]
        for outcome in outcomes
        if outcome.group
    ]


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def gone(pids: set[int], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not any(map(is_alive, pids))


async def test_a_killed_worker_loses_no_group_and_leaves_no_process(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=6, num_parallel_episodes=2)
    orders = orders_of(recipe)
    workers = Workers(recipe, ModelClient(recipe, seconds=0.3), MODEL, 2)

    outcomes, theirs, others = await played_there(workers, orders)
    # nothing lost or duplicated: for every order the same complete group as without the kill
    tasks = [outcome.group.task.id for outcome in outcomes if outcome.group is not None]
    assert tasks == [order.task.id for order in orders]
    assert ids_of(outcomes) == ids_of(await played_here(recipe, orders))
    assert sum(outcome.num_resent for outcome in outcomes) >= 1
    assert all(not outcome.failures for outcome in outcomes)
    # nothing leaked: the servers of the killed worker and of the others
    assert theirs
    assert others
    assert gone(theirs)
    assert gone(others)


class FirstOutcomeLost:
    """The handle of an actor whose first outcome is gone from Ray's object store, as if its node had died."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._num_calls = 0
        self.play = self

    def remote(self, order: Order) -> Any:
        self._num_calls += 1
        if self._num_calls > 1:
            return self._actor.play.remote(order)
        lost = ray.put(bytes(200_000))
        free([lost])
        return lost


async def test_an_order_whose_outcome_is_lost_with_its_node_is_sent_again(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=2)
    workers = Workers(recipe, ModelClient(recipe), MODEL, 1)
    [actor] = workers.actors
    workers.actors = [FirstOutcomeLost(actor)]
    outcome = await workers.play(orders_of(recipe)[0])
    assert outcome.group is not None
    assert outcome.num_resent == 1
    workers.actors = [actor]
    await workers.close()


async def test_a_mistake_is_raised_from_a_worker_unwrapped(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, num_tasks=2)
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"fmp": {"command": "no-such-program"}}}')
    workers = Workers(recipe, ModelClient(recipe), MODEL, 1)
    with pytest.raises(ValueError, match="no-such-program"):
        await workers.play(orders_of(recipe)[0])
