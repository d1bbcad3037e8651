"""A collection in a separate process: a real model, real servers, and tools with random delays.

    python tests/rollout/collection.py '{"luck": 1, "is_lockstep": true}'

Prints the ids and log-probs of all episodes exactly; `luck` seeds the delays of the tool calls.
"""

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from tests.chat.tokenizers import qwen3
from tests.rollout.stage import call, leasing, notebook, task
from tests.rollout.test_exactness import tiny_model
from turnwise.chat import open_chat
from turnwise.engines.transformers import TransformersEngine
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.episode import EpisodeLimits, player
from turnwise.rollout.lockstep import Lockstep
from turnwise.types import Group, Parsed, Sampling, ToolCall, ToolResult

NUM_SLOTS = 5
"""Fewer than the ten members: some get the slots of members that have ended."""


class TalkingChat:
    """Parses most completions as a call, the rest as an answer, so that episodes end in different rounds."""

    def __init__(self, chat: Any) -> None:
        self._chat = chat
        self.stop_ids = frozenset(range(0, 640, 20))
        self.open, self.extend = chat.open, chat.extend

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        if sum(completion_ids) % 4 == 0:
            return Parsed(text="done")
        return Parsed(calls=(call("write", text=str(len(completion_ids))), call("read")))


class SlowToolbox:
    """A toolbox whose calls take a random time."""

    def __init__(self, inner: Any, luck: random.Random) -> None:
        self._inner = inner
        self._luck = luck
        self.tools, self.losses = inner.tools, inner.losses

    async def call(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        await asyncio.sleep(self._luck.uniform(0, 0.15))
        results: list[ToolResult] = await self._inner.call(calls)
        return results


async def collect(luck_seed: int, is_lockstep: bool, fault_rate: float, is_warm: bool) -> list[Group]:
    luck = random.Random(luck_seed)
    chat = open_chat(qwen3(), system_prompt="Use the tools.")
    tasks = [task(f"t{number}", max_turns=4) for number in range(8)]
    options = {"fault_rate": fault_rate, "num_retries": 0, "breaker_failures": 10_000}
    # A small batch, chunk and cache: requests queue, prompts are split, prefixes are evicted.
    engine = TransformersEngine(
        tiny_model(1), device="cpu", max_batch=4, prefill_chunk=96, cache_tokens=4_096
    )
    try:
        async with Pool(notebook(**options), max_result_tokens=64, count_tokens=chat.count_tokens) as pool:
            await pool.connect()
            inner = leasing(pool)

            @contextlib.asynccontextmanager
            async def lease(*arguments: Any) -> AsyncIterator[Any]:
                await asyncio.sleep(luck.uniform(0, 0.05))
                async with inner(*arguments) as toolbox:
                    yield SlowToolbox(toolbox, luck)

            pace = Lockstep(engine, NUM_SLOTS, asyncio.Lock()) if is_lockstep else None
            limits = EpisodeLimits(tokens_per_turn=40, tokens_per_episode=2_000)
            playing = player(pace or engine, TalkingChat(chat), limits, Sampling())
            plan = CollectionPlan(group_size=2, num_parallel_episodes=NUM_SLOTS, num_retries=1)
            collector = Collector(playing, lease, Rewards(), plan, pace)
            if is_warm:  # earlier samples under the same weights must have no effect
                await engine.complete(chat.open(tasks[3].prompt, pool.tools)[:200], Sampling(max_tokens=9), 1)
            async with collector.collecting(iter(tasks), 5) as groups:
                return [group async for group in groups]
    finally:
        await engine.close()


def main() -> None:
    torch.set_num_threads(2)
    settings = json.loads(sys.argv[1])
    groups = asyncio.run(
        collect(
            settings["luck"],
            settings.get("is_lockstep", True),
            settings.get("fault_rate", 0.0),
            settings.get("is_warm", False),
        )
    )
    played = {
        trajectory.episode_id: {
            "token_ids": trajectory.token_ids,
            "logprobs": [logprob.hex() for logprob in trajectory.logprobs],
            "stop": trajectory.stop,
        }
        for group in groups
        for trajectory in group.trajectories
    }
    print(json.dumps({"order": [group.task.id for group in groups], "played": played}))


if __name__ == "__main__":
    main()
