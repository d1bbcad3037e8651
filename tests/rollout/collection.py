"""A collection with a real model, real servers and tools with random delays."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any

from tests.rollout.stage import call, gathered, leasing, notebook, small_chat, task
from tests.rollout.test_exactness import tiny_model
from turnwise.engines.transformers import TransformersEngine
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.lockstep import Lockstep
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.types import Parsed, Sampling, Task, ToolCall, ToolResult, Trajectory

TASKS = tuple(task(f"t{number}", max_turns=4) for number in range(8))
NUM_SLOTS = 5
"""Fewer than the ten members: some get the slots of members that have ended."""


class TalkingChat:
    """Parses most completions as a call, the rest as an answer, so that episodes end in different rounds."""

    def __init__(self, chat: Any) -> None:
        self._chat = chat
        self.stop_ids = frozenset(range(0, 640, 20))
        self.open, self.extend, self.follow, self.say = chat.open, chat.extend, chat.follow, chat.say

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        if sum(completion_ids) % 4 == 0:
            return Parsed(text="done")
        return Parsed(calls=(call("write", text=str(len(completion_ids))), call("read")))


class SlowToolbox:
    """A toolbox whose calls take a random time."""

    def __init__(self, inner: Any, delays: random.Random) -> None:
        self._inner = inner
        self._delays = delays
        self.tools, self.losses = inner.tools, inner.losses
        self.environment = inner.environment

    @property
    def busy_seconds(self) -> float:
        return self._inner.busy_seconds

    async def call(self, calls: Sequence[ToolCall], *, max_tokens: int | None = None) -> list[ToolResult]:
        await asyncio.sleep(self._delays.uniform(0, 0.15))
        results: list[ToolResult] = await self._inner.call(calls, max_tokens=max_tokens)
        return results


async def collect(
    *, delay_seed: int, fault_rate: float, is_warm: bool, tasks: Sequence[Task] = TASKS
) -> list[Trajectory]:
    """The episodes of five groups in lockstep; `is_warm`: after a completion that fills the cache."""
    delays, chat = random.Random(delay_seed), small_chat()
    options = {"fault_rate": fault_rate, "num_retries": 0, "breaker_failures": 10_000}
    # A small batch, chunk and cache: requests queue, prompts are split, prefixes are evicted.
    sizes = {"max_batch": 4, "prefill_chunk": 96, "cache_tokens": 4_096}
    engine = TransformersEngine(tiny_model(1), device="cpu", **sizes)
    try:
        async with Pool(notebook(**options), max_result_tokens=64, count_tokens=chat.count_tokens) as pool:
            await pool.connect()
            inner = leasing(pool)

            @contextlib.asynccontextmanager
            async def lease(*arguments: Any) -> AsyncIterator[Any]:
                await asyncio.sleep(delays.uniform(0, 0.05))
                async with inner(*arguments) as toolbox:
                    yield SlowToolbox(toolbox, delays)

            pace = Lockstep(engine, NUM_SLOTS, asyncio.Lock())
            limits = EpisodeLimits(tokens_per_turn=40, tokens_per_episode=2_000)
            playing = player(pace, TalkingChat(chat), limits)
            plan = CollectionPlan(group_size=2, num_parallel_episodes=NUM_SLOTS, num_retries=1)
            collector = Collector(playing, lease, Rewards(), plan, pace)
            if is_warm:  # earlier samples under the same weights must have no effect
                await engine.complete(chat.open(tasks[3].prompt, pool.tools)[:200], Sampling(max_tokens=9), 1)
            groups = await gathered(collector, iter(tasks), 5)
            return [trajectory for group in groups for trajectory in group.trajectories]
    finally:
        await engine.close()
