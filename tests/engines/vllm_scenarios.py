"""Scenarios for the vLLM engine, played in an environment with vLLM; prints one JSON line for each.

    .tools/vllm/bin/python -m tests.engines.vllm_scenarios          # fp32 on a CPU
    python -m tests.engines.vllm_scenarios --bfloat16 whole         # on a GPU; or adapters

One process plays them all, since vLLM takes half a minute to start; in test_vllm.py every line is a test.
"""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import torch

from tests.engines.models import qwen3, refused, some_ids, worst_gap
from turnwise.config.training import PolicyConfig
from turnwise.engines.vllm import VllmEngine, VllmSettings
from turnwise.training.policy.policy import Policy
from turnwise.types import Completion, Finish, Sampling
from turnwise.types.protocols import Adapter, EngineDown

IS_HALF = "--bfloat16" in sys.argv
DTYPE = torch.bfloat16 if IS_HALF else torch.float32
TOLERANCE = 0.3 if IS_HALF else 1e-4
HEAD_DIM = 32
"""vLLM's kernels for CPUs have none smaller."""
PROMPT = some_ids(random.Random(7), 300)
"""Longer than two blocks of the cache."""


def model(seed: int = 0) -> Any:
    return qwen3(seed, head_dim=HEAD_DIM).to(DTYPE)


def settings(**others: Any) -> VllmSettings:
    shared: dict[str, Any] = {"max_model_len": 1024, "max_batch": 16, "cache_bytes": 64 * 2**20}
    return VllmSettings(dtype=str(DTYPE).removeprefix("torch."), is_eager=True, **(shared | others))


def gap(of: Any, completion: Completion, prompt: list[int] = PROMPT, temperature: float = 1.0) -> float:
    return worst_gap(of.float(), prompt, completion, temperature)


# --- whole weights -----------------------------------------------------------------------------------------


async def the_next_turn_agrees_though_its_prefix_is_cached(engine: VllmEngine) -> None:
    prompt = list(PROMPT)
    for turn in range(3):
        completion = await engine.complete(prompt, Sampling(max_tokens=20), turn)
        assert gap(model(), completion, prompt) < TOLERANCE
        prompt += [*completion.token_ids, *some_ids(random.Random(turn), 150)]


async def a_seed_gives_its_tokens_whatever_else_is_sampled(engine: VllmEngine) -> None:
    wanted = Sampling(max_tokens=12)
    alone = await engine.complete(PROMPT, wanted, 5)
    others = [engine.complete(PROMPT[: 20 + seed], wanted, seed) for seed in range(10, 20)]
    among, *_ = await asyncio.gather(engine.complete(PROMPT, wanted, 5), *others)
    another = await engine.complete(PROMPT, wanted, 6)
    assert another.token_ids != alone.token_ids
    if not IS_HALF:  # there, batches of other sizes round so differently that draws change
        assert among.token_ids == alone.token_ids


async def more_prompts_are_read_than_a_step_has_room_for(engine: VllmEngine) -> None:
    prompts = [some_ids(random.Random(n), 900) for n in range(12)]
    wanted = Sampling(max_tokens=4)
    found = await asyncio.gather(*(engine.complete(prompt, wanted, n) for n, prompt in enumerate(prompts)))
    gaps = [gap(model(), completion, prompt) for prompt, completion in zip(prompts, found, strict=True)]
    assert max(gaps) < TOLERANCE, gaps


async def length_stop_token_temperature_and_mistakes_are_as_in_every_engine(engine: VllmEngine) -> None:
    free = await engine.complete(PROMPT, Sampling(max_tokens=8), 1)
    assert len(free.token_ids) == len(free.logprobs) == 8
    assert (free.finish, free.policy_version) == (Finish.LENGTH, 0)
    assert gap(model(), free) < TOLERANCE
    stop = free.token_ids[3]
    ended = await engine.complete(PROMPT, Sampling(max_tokens=8, stop_ids=frozenset({stop})), 1)
    assert ended.finish is Finish.STOP
    assert ended.token_ids[-1] == stop
    assert len(ended.token_ids) == len(ended.logprobs) == free.token_ids.index(stop) + 1
    warm = await engine.complete(PROMPT, Sampling(max_tokens=8, temperature=0.5), 1)
    assert gap(model(), warm, temperature=0.5) < TOLERANCE
    assert gap(model(), warm, temperature=1.0) > 2 * TOLERANCE
    greedy = await engine.complete(PROMPT, Sampling(max_tokens=8, temperature=0), 1)
    assert gap(model(), greedy) < TOLERANCE, "greedy sampling records log-probs of temperature 1"
    await refused(engine.complete([], Sampling(max_tokens=1), 0), ValueError, "prompt_ids")
    await refused(engine.complete([1], Sampling(max_tokens=0), 0), ValueError, "max_tokens")
    await refused(engine.complete(PROMPT, Sampling(max_tokens=1000), 0), ValueError, "context of 1024")
    await refused(engine.publish(Adapter({}, 4, 8.0), 1), ValueError, "whole weights")


async def a_cancelled_completion_makes_room(engine: VllmEngine) -> None:
    long = [asyncio.ensure_future(engine.complete(PROMPT, Sampling(max_tokens=700), n)) for n in range(16)]
    await asyncio.sleep(0.3)
    for completion in long:
        completion.cancel()
    await asyncio.gather(*long, return_exceptions=True)
    assert all(completion.cancelled() for completion in long)
    assert len((await engine.complete(PROMPT, Sampling(max_tokens=3), 0)).token_ids) == 3


async def publications_change_the_logprobs_to_the_trainers(engine: VllmEngine) -> None:
    begun = asyncio.ensure_future(engine.complete(PROMPT, Sampling(max_tokens=40), 0))
    await asyncio.sleep(0.1)
    for version in (3, 4):
        await engine.publish(model(version).state_dict(), version)
        completion = await engine.complete(PROMPT, Sampling(max_tokens=20), 0)
        assert completion.policy_version == version
        assert gap(model(version), completion) < TOLERANCE
        assert gap(model(version - 1), completion) > 0.5
    assert (await begun).policy_version == 0
    assert gap(model(), await begun) < TOLERANCE


async def an_engine_that_dies_in_a_publication_comes_back_with_it(engine: VllmEngine) -> None:
    for process in children(os.getpid()):
        os.kill(process, signal.SIGSTOP)
    publishing = asyncio.ensure_future(engine.publish(model(5).state_dict(), 5))
    await asyncio.sleep(0.5)
    assert not publishing.done()
    for process in children(os.getpid()):
        os.kill(process, signal.SIGKILL)
    await publishing
    completion = await engine.complete(PROMPT, Sampling(max_tokens=20), 0)
    assert completion.policy_version == 5
    assert gap(model(5), completion) < TOLERANCE


async def a_closed_engine_is_down_and_may_be_closed_again(engine: VllmEngine) -> None:
    begun = asyncio.ensure_future(engine.complete(PROMPT, Sampling(max_tokens=700), 0))
    await asyncio.sleep(0.2)
    await engine.close()
    await engine.close()
    await refused(begun, EngineDown, "abort")
    await refused(engine.complete(PROMPT, Sampling(max_tokens=1), 0), EngineDown, "closed")
    await refused(engine.publish(model().state_dict(), 1), EngineDown, "closed")


# --- adapters ----------------------------------------------------------------------------------------------


def policy_of(seed: int) -> Policy:
    """A policy whose adapter changes the model."""
    policy = Policy(model(), PolicyConfig(lora_rank=4, lora_alpha=8.0), seed=0)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.trainable.values():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return policy


async def adapters_change_the_logprobs_to_the_trainers(engine: VllmEngine) -> None:
    base = await engine.complete(PROMPT, Sampling(max_tokens=10), 0)
    assert gap(model(), base) < TOLERANCE
    await engine.publish(Policy(model(), PolicyConfig(lora_rank=4), seed=0).adapter(), 1)
    untaught = await engine.complete(PROMPT, Sampling(max_tokens=10), 0)
    assert gap(model(), untaught) < TOLERANCE
    for version in (2, 3, 4, 5):
        await engine.publish(policy_of(version).adapter(), version)
        completion = await engine.complete(PROMPT, Sampling(max_tokens=20), 0)
        assert completion.policy_version == version
        assert gap(policy_of(version).model, completion) < TOLERANCE
        assert gap(policy_of(version - 1).model, completion) > 0.5


async def a_completion_under_way_keeps_its_own_adapter(engine: VllmEngine) -> None:
    begun = {}
    for version in (6, 7, 8):
        await engine.publish(policy_of(version).adapter(), version)
        begun[version] = asyncio.ensure_future(engine.complete(PROMPT, Sampling(max_tokens=60), version))
        await asyncio.sleep(0.1)
    for version, completion in begun.items():
        assert (await completion).policy_version == version
        assert gap(policy_of(version).model, await completion) < TOLERANCE
    await engine.publish(policy_of(9).adapter(), 9)
    assert engine._running is not None
    assert len(await engine._running.llm.list_loras()) == 1, "old adapters stay loaded"


async def a_ctrl_c_does_not_reach_it(engine: VllmEngine) -> None:
    assert engine._running is not None
    before = engine._running.llm
    begun = asyncio.ensure_future(engine.complete(PROMPT, Sampling(max_tokens=60), 0))
    await asyncio.sleep(0.1)
    for process in children(os.getpid()):
        os.kill(process, signal.SIGINT)
    assert (await begun).policy_version == 9
    await asyncio.sleep(0.5)
    await engine.complete(PROMPT, Sampling(max_tokens=2), 0)
    assert engine._running.llm is before


async def an_engine_that_died_comes_back_with_its_adapter(engine: VllmEngine) -> None:
    begun = asyncio.ensure_future(engine.complete(PROMPT, Sampling(max_tokens=700), 0))
    await asyncio.sleep(0.3)
    for process in children(os.getpid()):
        os.kill(process, signal.SIGKILL)
    await refused(begun, EngineDown, "died")
    completion = await engine.complete(PROMPT, Sampling(max_tokens=20), 0)
    assert completion.policy_version == 9
    assert gap(policy_of(9).model, completion) < TOLERANCE


def children(process: int) -> list[int]:
    """Of the engine: every process below this one but multiprocessing's tracker of resources."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if parent == process and b"resource_tracker" not in command:
            found += [*children(int(entry.name)), int(entry.name)]
    return found


Scenario = Callable[[VllmEngine], Awaitable[None]]
WHOLE: tuple[Scenario, ...] = (
    length_stop_token_temperature_and_mistakes_are_as_in_every_engine,
    the_next_turn_agrees_though_its_prefix_is_cached,
    a_seed_gives_its_tokens_whatever_else_is_sampled,
    more_prompts_are_read_than_a_step_has_room_for,
    a_cancelled_completion_makes_room,
    publications_change_the_logprobs_to_the_trainers,
    a_closed_engine_is_down_and_may_be_closed_again,
)
ADAPTERS: tuple[Scenario, ...] = (
    adapters_change_the_logprobs_to_the_trainers,
    a_completion_under_way_keeps_its_own_adapter,
    a_ctrl_c_does_not_reach_it,
    an_engine_that_died_comes_back_with_its_adapter,
)
DYING: tuple[Scenario, ...] = (an_engine_that_dies_in_a_publication_comes_back_with_it,)
"""Needs two more starts, so it is played only on request."""

PLAYED = {"whole": WHOLE, "adapters": ADAPTERS, "dying": DYING}


async def play(engine: VllmEngine, scenarios: tuple[Scenario, ...]) -> None:
    for scenario in scenarios:
        started, error = time.perf_counter(), ""
        try:
            async with asyncio.timeout(300):
                await scenario(engine)
        except Exception:  # noqa: BLE001 - printed, not raised: the next ones are played too
            error = traceback.format_exc()
        seconds = round(time.perf_counter() - started, 2)
        name = scenario.__name__
        print(json.dumps({"scenario": name, "seconds": seconds, "error": error}), flush=True)
    await engine.close()


async def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        model().save_pretrained(folder)
        # adapters first: a Ctrl-C is most likely to reach the first engine of a process
        for name in [scenario for scenario in PLAYED if scenario in sys.argv] or ("adapters", "whole"):
            rank = {"lora_rank": 4} if name == "adapters" else {}
            await play(VllmEngine(folder, settings(**rank)), PLAYED[name])


if __name__ == "__main__":
    asyncio.run(main())
