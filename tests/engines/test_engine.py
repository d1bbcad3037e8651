"""The transformers engine under load: requests join, leave, are cancelled and fail; memory stays bounded."""

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.engines.models import VOCAB, plain_logprobs, qwen3, running, some_ids, worst_gap
from turnwise.engines.transformers import TransformersEngine
from turnwise.types import Completion, Finish, Sampling
from turnwise.types.protocols import EngineDown


async def test_the_same_request_gives_the_same_tokens_alone_and_among_others() -> None:
    source = random.Random(0)
    prefix = some_ids(source, 130)
    wanted = ([*prefix, *some_ids(source, 20)], Sampling(max_tokens=40), 77)
    async with running(qwen3()) as engine:
        alone = await engine.complete(*wanted)
    async with running(qwen3(), prefill_chunk=33, max_batch=16) as engine:

        async def other(number: int) -> None:
            start = prefix if number % 2 else []
            prompt = [*start, *some_ids(source, source.randrange(1, 200))]
            await asyncio.sleep(0.01 * source.random())
            sampling = Sampling(max_tokens=source.randrange(1, 60), temperature=source.choice([0, 1, 1.5]))
            await engine.complete(prompt, sampling, number)

        jobs = [engine.complete(*wanted), *(other(number) for number in range(15))]
        among, *_ = await asyncio.gather(*jobs)
        assert isinstance(among, Completion)
        assert among.token_ids == alone.token_ids
        again = await engine.complete(*wanted)
        assert again.token_ids == alone.token_ids
        jobs = [engine.complete(*wanted[:2], seed) for seed in range(8)]
        assert len({completion.token_ids for completion in await asyncio.gather(*jobs)}) == 8


async def test_requests_join_and_leave_the_running_batch_at_any_token() -> None:
    source = random.Random(2)
    plain = qwen3()
    async with running(qwen3(), max_batch=5, prefill_chunk=40) as engine:
        order: list[int] = []

        async def ask(number: int) -> float:
            await until(lambda: engine.counts.num_steps >= number)
            prompt = some_ids(source, 1 + number * 7 % 60)
            sampling = Sampling(max_tokens=1 + number * 13 % 37)
            completion = await engine.complete(prompt, sampling, number)
            order.append(number)
            assert len(completion.token_ids) == sampling.max_tokens
            assert completion.finish is Finish.LENGTH
            return worst_gap(plain, prompt, completion)

        assert max(await asyncio.gather(*(ask(number) for number in range(20)))) <= 1e-4
        assert order != sorted(order)  # a short one did not wait for a long one
        assert engine.counts.num_steps < engine.counts.num_decoded  # they shared steps


async def test_a_long_prompt_does_not_hold_up_what_is_running() -> None:
    source = random.Random(2)
    async with running(qwen3(), prefill_chunk=16) as engine:
        short = asyncio.ensure_future(engine.complete(some_ids(source, 5), Sampling(max_tokens=30), 0))
        await until(lambda: engine.counts.num_decoded >= 1)
        long = asyncio.ensure_future(engine.complete(some_ids(source, 900), Sampling(max_tokens=1), 0))
        await short
        assert not long.done()
        await long


async def until(is_reached: Callable[[], bool]) -> None:
    while not is_reached():
        await asyncio.sleep(0.001)  # a spinning loop would hold the lock the engine needs


async def test_a_stop_token_ends_the_completion_and_is_part_of_it() -> None:
    prompt = some_ids(random.Random(1), 15)
    async with running(qwen3()) as engine:
        free = await engine.complete(prompt, Sampling(max_tokens=20), 3)
        stop = free.token_ids[6]
        cut = free.token_ids.index(stop) + 1
        stopped = await engine.complete(prompt, Sampling(max_tokens=20, stop_ids=frozenset({stop})), 3)
        assert stopped.token_ids == free.token_ids[:cut]
        assert stopped.finish is Finish.STOP
        exact = await engine.complete(prompt, Sampling(max_tokens=cut, stop_ids=frozenset({stop})), 3)
        assert exact.finish is Finish.STOP
        assert len(exact.logprobs) == cut


async def test_the_least_recently_used_prefix_is_evicted_first() -> None:
    source = random.Random(4)
    old, kept, new = (some_ids(source, 300) for _ in range(3))
    async with running(qwen3(), cache_tokens=1000) as engine:

        async def computed(prompt: list[int]) -> int:
            before = engine.counts.num_prefilled
            await engine.complete(prompt, Sampling(max_tokens=4), 0)
            return engine.counts.num_prefilled - before

        assert [await computed(prompt) for prompt in (kept, old, kept)] == [299, 299, 0]
        assert await computed(new) == 299  # there is room for two
        assert await computed(kept) == 0
        assert await computed(old) == 299


async def test_a_cancelled_request_frees_its_place() -> None:
    source = random.Random(5)
    async with running(qwen3(), max_batch=1, cache_tokens=1200) as engine:
        for num_steps in (5, 1):  # while it is sampled, while its prompt is read
            steps = engine.counts.num_steps + num_steps
            jobs = []
            for seed in range(2):  # the second one waits for the place
                prompt = some_ids(source, 400)
                jobs.append(asyncio.ensure_future(engine.complete(prompt, Sampling(max_tokens=600), seed)))
            await until(lambda steps=steps: engine.counts.num_steps >= steps)  # type: ignore[misc]
            for job in reversed(jobs):
                job.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await job
            # With one row in all, this could not be answered if the place were still taken.
            prompt = some_ids(source, 30)
            completion = await asyncio.wait_for(engine.complete(prompt, Sampling(max_tokens=5), 2), 30)
            assert worst_gap(qwen3(), prompt, completion) <= 1e-4
        assert engine.counts.num_decoded < 600
        assert not engine._asked


async def test_closing_ends_the_thread_and_all_requests() -> None:
    before = set(threading.enumerate()), asyncio.all_tasks()
    engine = TransformersEngine(qwen3(), device="cpu", max_batch=2)
    assert set(threading.enumerate()) != before[0]
    wanted = Sampling(max_tokens=900)
    jobs = [asyncio.ensure_future(engine.complete([1, 2, 3], wanted, seed)) for seed in range(4)]
    await until(lambda: engine.counts.num_decoded > 0)
    publication = asyncio.ensure_future(engine.publish(qwen3(1).state_dict(), 1))
    await asyncio.sleep(0.01)
    await asyncio.gather(engine.close(), engine.close())
    for result in await asyncio.gather(*jobs, publication, return_exceptions=True):
        assert isinstance(result, EngineDown)
    assert (set(threading.enumerate()), asyncio.all_tasks()) == before


def test_one_engine_serves_one_event_loop_after_another() -> None:
    engine = TransformersEngine(qwen3(), device="cpu")
    first, second = (asyncio.run(engine.complete([5, 6, 7], Sampling(max_tokens=6), 0)) for _ in range(2))
    assert first == second
    asyncio.run(engine.close())


async def test_nan_weights_are_engine_down_until_good_ones_are_published() -> None:
    broken = {name: torch.full_like(value, torch.nan) for name, value in qwen3().state_dict().items()}
    async with running(qwen3()) as engine:
        await engine.publish(broken, 1)
        for _ in range(2):
            with pytest.raises(EngineDown, match="not numbers"):
                await engine.complete([1, 2, 3, 4], Sampling(max_tokens=5), 0)
        await engine.publish(qwen3(1).state_dict(), 2)
        completion = await engine.complete([1, 2, 3, 4], Sampling(max_tokens=5), 0)
        assert completion.policy_version == 2
        assert worst_gap(qwen3(1), [1, 2, 3, 4], completion) <= 1e-4


async def test_nan_in_one_row_does_not_affect_the_other_rows() -> None:
    model = qwen3()
    with torch.no_grad():
        model.model.embed_tokens.weight[13] = torch.nan  # tied: every logit row has one bad entry, so:
    model.lm_head.weight = torch.nn.Parameter(qwen3().lm_head.weight.detach().clone())
    # The short one takes over the broken one's row, and the long one keeps what it left there in view.
    sound = [list(range(20, 120)), [5, 6, 7, 8]]
    sampling = Sampling(max_tokens=30, temperature=0)
    async with running(qwen3()) as engine:
        expected = [await engine.complete(prompt, sampling, 0) for prompt in sound]
    if any(13 in completion.token_ids for completion in expected):
        pytest.skip("the sound ones sample the broken token")
    async with running(model) as engine:
        jobs = [engine.complete(prompt, sampling, 0) for prompt in ([*[1] * 60, 13], *sound)]
        broken, *results = await asyncio.gather(*jobs, return_exceptions=True)
        assert isinstance(broken, EngineDown)
        assert [result.token_ids for result in results if isinstance(result, Completion)] == [
            completion.token_ids for completion in expected
        ]
        # The row it left is used again.
        again = await engine.complete(sound[1], sampling, 0)
        assert again.token_ids == expected[1].token_ids


async def test_a_model_that_raises_fails_what_was_running_and_the_engine_continues() -> None:
    def hook(*_: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    model = qwen3()
    hooked = model.model.layers[1].register_forward_pre_hook(hook)
    async with running(model) as engine:
        jobs = (engine.complete([1, 2, n], Sampling(max_tokens=3), 0) for n in range(3))
        for result in await asyncio.gather(*jobs, return_exceptions=True):
            assert isinstance(result, EngineDown)
            assert "allocate" in str(result)
        hooked.remove()
        completion = await engine.complete([1, 2, 3], Sampling(max_tokens=3), 0)
        assert worst_gap(qwen3(), [1, 2, 3], completion) <= 1e-4


async def test_requests_that_cannot_be_served_are_refused_with_their_figures() -> None:
    async with running(qwen3(), cache_tokens=800) as engine:
        for prompt, sampling, words in [
            ([], Sampling(max_tokens=1), "empty"),
            ([1] * 1000, Sampling(max_tokens=25), "1000 tokens and 25 new ones.*context of 1024"),
            ([1] * 700, Sampling(max_tokens=200), "700 tokens and 200 new ones.*cache_tokens=800"),
            ([1, VOCAB], Sampling(max_tokens=1), f"{VOCAB}"),
            ([1, -1], Sampling(max_tokens=1), "-1"),
            ([1], Sampling(max_tokens=0), "max_tokens"),
            ([1], Sampling(temperature=-1), "temperature"),
            ([1], Sampling(top_p=0), "top_p"),
        ]:
            with pytest.raises(ValueError, match=words):
                await engine.complete(prompt, sampling, 0)
    async with running(qwen3()) as engine:
        completion = await engine.complete([1] * 1000, Sampling(max_tokens=24), 0)
        assert len(completion.token_ids) == 24


async def test_a_request_as_large_as_the_cache_is_served_within_its_bound() -> None:
    source = random.Random(0)
    async with running(qwen3(), cache_tokens=800) as engine:
        prompts = [some_ids(source, length) for length in (300, 150, 40, 200, 77)]
        jobs = [engine.complete(prompt, Sampling(max_tokens=20), seed) for seed, prompt in enumerate(prompts)]
        await asyncio.gather(*jobs)
        prompt = some_ids(source, 545)
        completion = await engine.complete(prompt, Sampling(max_tokens=255), 0)
        assert worst_gap(qwen3(), prompt, completion) <= 1e-4
        assert engine.counts.most_cached <= 800


async def test_weights_must_be_the_models_own_by_name_and_shape() -> None:
    whole = dict(qwen3(1).state_dict())
    name = "model.layers.1.mlp.up_proj.weight"
    async with running(qwen3()) as engine:
        for weights, words in [
            ({key: value for key, value in whole.items() if key != name}, f"{name}' is missing"),
            ({**whole, "model.layers.9.mlp.up_proj.weight": whole[name]}, "layers.9.*no parameter"),
            ({**whole, name: whole[name][:3]}, rf"{name}' has shape \(3, 64\).*\(96, 64\)"),
            ({**whole, name: 1.0}, f"{name}' is a float"),
        ]:
            with pytest.raises(ValueError, match=words):
                await engine.publish(weights, 1)
        completion = await engine.complete([1, 2], Sampling(max_tokens=3), 0)
        assert completion.policy_version == 0
        assert worst_gap(qwen3(0), [1, 2], completion) <= 1e-4  # nothing was half copied
        del whole["lm_head.weight"]  # tied: the embedding's name is enough
        await engine.publish(whole, 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layer_types": ["full_attention", "sliding_attention", "full_attention"]}, "sliding_attention"),
        ({"use_sliding_window": True, "sliding_window": 16}, "sliding window of 16"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "dynamic"),
    ],
)
def test_models_it_would_compute_wrongly_are_refused(change: dict[str, Any], words: str) -> None:
    model = qwen3()
    for name, value in change.items():
        setattr(model.config, name, value)
    with pytest.raises(ValueError, match=words):
        TransformersEngine(model, device="cpu")


async def test_the_model_can_still_be_called_as_usual() -> None:
    model = qwen3()
    ids = some_ids(random.Random(0), 25)
    async with running(model) as engine:
        await engine.complete(ids, Sampling(max_tokens=3), 0)
    ours, plain = (plain_logprobs(network, ids[:5], ids[5:]) for network in (model, qwen3()))
    assert ours == pytest.approx(plain, abs=1e-5)
