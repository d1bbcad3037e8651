"""The log-probs of the engine are those of a plain forward pass with the same weights."""

import asyncio
import random
from typing import Any

import pytest
import torch

from tests.engines.models import llama, qwen3, refused, running, some_ids, worst_gap
from turnwise.config.training import PolicyConfig
from turnwise.engines.transformers import TransformersEngine
from turnwise.training.policy.policy import Policy
from turnwise.types import Sampling
from turnwise.types.protocols import Adapter

CLOSE = 1e-4


async def play_turns(
    engine: TransformersEngine, model: Any, prompt: list[int], seed: int, *, num_turns: int = 3
) -> float:
    """An episode whose every turn goes on from the exact ids before; the worst gap of all turns."""
    source = random.Random(seed)
    worst = 0.0
    for _ in range(num_turns):
        sampling = Sampling(max_tokens=source.randrange(3, 25))
        completion = await engine.complete(prompt, sampling, seed)
        worst = max(worst, worst_gap(model, prompt, completion))
        prompt = [*prompt, *completion.token_ids, *some_ids(source, source.randrange(1, 40))]
    return worst


@pytest.mark.parametrize(("make", "prefill_chunk"), [(qwen3, 7), (qwen3, 512), (llama, 64)])
async def test_logprobs_match_across_turns_batches_and_chunk_sizes(make: Any, prefill_chunk: int) -> None:
    source = random.Random(3)
    plain = make()
    prefixes = [some_ids(source, 150), some_ids(source, 90)]  # two sets of tools at once
    async with running(make(), prefill_chunk=prefill_chunk, max_batch=6) as engine:
        prompts = [prefixes[n % 2] + some_ids(source, 1 + 3 * n) for n in range(10)]
        plays = (play_turns(engine, plain, prompt, n) for n, prompt in enumerate(prompts))
        gaps = await asyncio.gather(*plays)
        assert max(gaps) <= CLOSE
        # Each prefix once, and of a turn only its new tokens: far fewer than the prompts' lengths.
        assert engine.counts.num_prefilled < 150 + 90 + 10 * (30 + 2 * 40)
        assert engine.counts.num_reused > 10 * 3 * 90


async def test_a_new_turn_computes_only_its_new_tokens_and_a_known_prompt_none() -> None:
    source = random.Random(0)
    prompt = some_ids(source, 100)
    async with running(qwen3()) as engine:
        # A prompt's last token is fed as the first decoding step; the last one sampled before it, which
        # was never fed, is computed in its place.
        for num_computed, num_next in [(99, 30), (30, 1), (1, 55), (55, 1)]:
            before = engine.counts.num_prefilled
            completion = await engine.complete(prompt, Sampling(max_tokens=10), 0)
            again = await engine.complete(prompt, Sampling(max_tokens=10), 0)
            assert engine.counts.num_prefilled - before == num_computed, "and nothing for the same prompt"
            assert again.token_ids == completion.token_ids
            assert max(worst_gap(qwen3(), prompt, one) for one in (completion, again)) <= CLOSE
            prompt = [*prompt, *completion.token_ids, *some_ids(source, num_next)]


async def test_a_prefix_shared_by_requests_that_come_together_is_computed_once() -> None:
    source = random.Random(0)
    prefix = some_ids(source, 300)
    async with running(qwen3(), prefill_chunk=64) as engine:
        prompts = [[*prefix, n, *some_ids(source, 4)] for n in range(8)]
        jobs = (engine.complete(prompt, Sampling(max_tokens=4), 0) for prompt in prompts)
        completions = await asyncio.gather(*jobs)
        assert engine.counts.num_prefilled == 300 + 8 * 4
        for prompt, completion in zip(prompts, completions, strict=True):
            assert worst_gap(qwen3(), prompt, completion) <= CLOSE


async def test_a_prefix_is_shared_with_one_that_is_still_being_sampled_or_computed() -> None:
    source = random.Random(1)
    prefix = some_ids(source, 260)
    plain = qwen3()
    async with running(qwen3(), prefill_chunk=100) as engine:

        async def late(number: int) -> float:
            while engine.counts.num_steps < 3 * number:
                await asyncio.sleep(0.001)  # a spinning loop would hold the lock the engine needs
            prompt = [*prefix[: 250 - 40 * number], *some_ids(source, 20)]
            completion = await engine.complete(prompt, Sampling(max_tokens=15), number)
            return worst_gap(plain, prompt, completion)

        assert max(await asyncio.gather(*(late(number) for number in range(6)))) <= CLOSE


async def test_logprobs_match_when_memory_is_short_and_caches_are_evicted() -> None:
    source = random.Random(9)
    plain = qwen3()
    async with running(qwen3(), cache_tokens=700, prefill_chunk=50) as engine:
        prompts = [some_ids(source, 100 + 17 * n) for n in range(8)]
        gaps = await asyncio.gather(*(play_turns(engine, plain, p, n) for n, p in enumerate(prompts)))
        assert max(gaps) <= CLOSE
        assert engine.counts.most_cached <= 700
        assert engine.counts.num_prefilled > sum(map(len, prompts))  # some of it more than once


async def test_after_a_publication_logprobs_change_and_match_the_new_weights() -> None:
    prompt = some_ids(random.Random(4), 120)
    async with running(qwen3(0)) as engine:
        before = await engine.complete(prompt, Sampling(max_tokens=12), 1)
        assert before.policy_version == 0
        for version, seed in [(1, 7), (2, 8), (3, 0)]:
            await engine.publish(qwen3(seed).state_dict(), version)
            completion = await engine.complete(prompt, Sampling(max_tokens=12), 1)
            assert completion.policy_version == version
            assert worst_gap(qwen3(seed), prompt, completion) <= CLOSE
            if seed:
                assert worst_gap(qwen3(0), prompt, completion) > 0.5
        assert completion.token_ids == before.token_ids  # the first weights again


async def test_a_completion_under_way_finishes_under_the_weights_it_began_with() -> None:
    source = random.Random(5)
    async with running(qwen3(0), max_batch=2) as engine:
        prompts = [some_ids(source, 60) for _ in range(4)]
        jobs = [
            asyncio.ensure_future(engine.complete(prompt, Sampling(max_tokens=40), n))
            for n, prompt in enumerate(prompts)
        ]
        while engine.counts.num_decoded < 10:
            await asyncio.sleep(0.001)
        await engine.publish(qwen3(7).state_dict(), 1)
        completions = await asyncio.gather(*jobs)
        assert [completion.policy_version for completion in completions] == [0, 0, 1, 1]
        for prompt, completion in zip(prompts, completions, strict=True):
            model = qwen3(7 if completion.policy_version else 0)
            assert worst_gap(model, prompt, completion) <= CLOSE


async def test_other_temperatures_are_in_the_logprobs() -> None:
    prompt = some_ids(random.Random(6), 30)
    async with running(qwen3()) as engine:
        for temperature in (0.6, 1.7):
            completion = await engine.complete(prompt, Sampling(max_tokens=15, temperature=temperature), 2)
            assert worst_gap(qwen3(), prompt, completion, temperature) <= CLOSE
            assert worst_gap(qwen3(), prompt, completion) > 0.01


@pytest.mark.parametrize("make", [qwen3, llama])
async def test_greedy_is_what_generate_gives_and_its_logprobs_are_of_temperature_one(make: Any) -> None:
    source = random.Random(8)
    prompts = [some_ids(source, length) for length in (1, 2, 33, 170)]
    plain = make()
    async with running(make(), prefill_chunk=32) as engine:
        sampling = Sampling(max_tokens=30, temperature=0)
        jobs = (engine.complete(prompt, sampling, n) for n, prompt in enumerate(prompts))
        for prompt, completion in zip(prompts, await asyncio.gather(*jobs), strict=True):
            ids = torch.tensor([prompt])
            mask = torch.ones_like(ids)
            expected = plain.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=30)
            assert list(completion.token_ids) == expected[0, len(prompt) :].tolist()
            assert worst_gap(plain, prompt, completion) <= CLOSE


async def test_bfloat16_stays_near_its_own_forward_pass() -> None:
    prompt = some_ids(random.Random(2), 100)
    async with running(qwen3(), dtype=torch.bfloat16) as engine:
        completion = await engine.complete(prompt, Sampling(max_tokens=20), 0)
        assert worst_gap(qwen3().bfloat16(), prompt, completion) < 0.5


async def test_an_adapter_is_added_to_the_weights_without_the_one_before() -> None:
    policy = Policy(qwen3(), PolicyConfig(lora_rank=4, lora_alpha=12.0), seed=0)
    prompt = some_ids(random.Random(2), 40)
    async with running(qwen3()) as engine:
        for version in (1, 2):
            with torch.no_grad():
                for tensor in policy.trainable.values():
                    tensor.normal_(std=0.2)
            before = await engine.complete(prompt, Sampling(max_tokens=20), 0)
            await engine.publish(policy.adapter(), version)
            after = await engine.complete(prompt, Sampling(max_tokens=20), 0)
            assert after.policy_version == version
            assert worst_gap(policy.model, prompt, after) <= CLOSE
            assert worst_gap(policy.model, prompt, before) > 0.5
        await engine.publish(qwen3(1).state_dict(), 3)
        nowhere = {f"nowhere.lora_{name}": torch.zeros(4, 4) for name in "AB"}
        words = r"the adapter changes 'nowhere\.weight'"
        await refused(engine.publish(Adapter(nowhere, 4, 8.0), 4), ValueError, words)
        await engine.publish(policy.adapter(), 5)
        other = Policy(qwen3(1), PolicyConfig(lora_rank=4, lora_alpha=12.0), seed=0)
        other.load_state(policy.state())
        completion = await engine.complete(prompt, Sampling(max_tokens=20), 0)
        assert worst_gap(other.model, prompt, completion) <= CLOSE
