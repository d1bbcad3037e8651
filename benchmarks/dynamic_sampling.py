"""Measure how long a step collects as groups go flat: replacements started at once, and one after another.

    python benchmarks/dynamic_sampling.py [--slots 256]

A step wants 16 groups of 8 episodes that teach. An episode is a timer of 0.5 to 1.5 s, as its task and member
say. A share of the tasks is flat: all members get the same reward. Drawing, collecting and replacing are a
run's own, and the groups of both ways are compared. With `--slots` for all episodes, the time is that of an
idle engine; with fewer, episodes wait for each other, and what is started and not used costs time.
"""

import sys
from pathlib import Path

sys.path.pop(0)  # without this folder, whose mcp.py would shadow the SDK's `mcp`
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import argparse
import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from statistics import fmean
from types import SimpleNamespace
from typing import Any

from turnwise.config import Recipe
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.run import batches
from turnwise.tasks.curriculum import CurriculumState
from turnwise.types import Message, Reward, Stop, Task, Trajectory, Truth
from turnwise.types.protocols import TASK_ONLY

GROUP_SIZE = 8
NUM_STEPS = 5


class Rewards:
    """Equal rewards for the members of a flat task."""

    def __init__(self, flat_share: float) -> None:
        self._flat_share = flat_share

    async def score(self, trajectory: Trajectory) -> Reward:
        is_flat = random.Random(trajectory.task.id).random() < self._flat_share
        total = 1.0 if is_flat else float(int(trajectory.episode_id.rpartition("/")[2][0]) % 2)
        return Reward(total, {"outcome": total})


async def play(task: Task, toolbox: Any, episode_id: str, seed: int, lost: Any = ()) -> Trajectory:
    await asyncio.sleep(random.Random(seed).uniform(0.5, 1.5))
    return Trajectory(task, episode_id, seed, (), Stop.ANSWERED)


@contextlib.asynccontextmanager
async def lease(task: Task, episode_id: str) -> AsyncIterator[Any]:
    yield SimpleNamespace(environment=TASK_ONLY, tools=(), losses=())


async def collect(flat_share: float, num_slots: int) -> list[batches.CollectedBatch]:
    tasks = [Task(str(number), (Message("user", "?"),), (), Truth()) for number in range(1000)]
    recipe = Recipe.model_validate({"run": {"tasks_per_step": 16}, "rollout": {"max_draws": 4.0}})

    def new_collector(step: int) -> Collector:
        return Collector(play, lease, Rewards(flat_share), CollectionPlan(GROUP_SIZE, num_slots, seed=step))

    source = batches.Batches(
        tasks,
        recipe,
        new_collector,
        steps=range(NUM_STEPS),
        shown=lambda progress: contextlib.nullcontext(),
        on_group=lambda step, group: None,
    )
    collected = []
    async with source.collecting(CurriculumState()):
        for step in range(NUM_STEPS):
            collected.append(await source.take(step))
            source.learned_from(step)
    return collected[1:]  # the first step knows nothing of flat groups


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slots", type=int, default=1024, help="episodes at the same time")
    num_slots = parser.parse_args().slots
    print("| flat | at once, s | one after another, s | ratio | episodes not used |")
    print("|---|---|---|---|---|")
    predicted = batches.num_replaced
    for flat_share in (0.0, 0.2, 0.4, 0.6):
        at_once = asyncio.run(collect(flat_share, num_slots))
        batches.num_replaced = lambda *_: 0  # type: ignore[assignment]
        one_by_one = asyncio.run(collect(flat_share, num_slots))
        batches.num_replaced = predicted
        for ours, plain in zip(at_once, one_by_one, strict=True):
            assert [group.task.id for group in ours.played] == [group.task.id for group in plain.played]
        fast, slow = (fmean(batch.seconds for batch in side) for side in (at_once, one_by_one))
        started = sum(batch.progress.num_started for batch in at_once)
        unused = 1 - sum(len(batch.played) for batch in at_once) * GROUP_SIZE / started
        print(f"| {flat_share:.0%} | {fast:.2f} | {slow:.2f} | {slow / fast:.2f} | {unused:.0%} |")


if __name__ == "__main__":
    main()
