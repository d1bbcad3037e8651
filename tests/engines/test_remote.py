"""A remote engine gives exactly what it gives in process, and only to clients with the token."""

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import torch

from tests.engines.models import VOCAB, qwen3, refused, running, some_ids, worst_gap
from tests.engines.served import Serving, adapter, asking, model_recipe, serving
from turnwise.config import Recipe
from turnwise.engines.remote import TOKEN_VARIABLE, RemoteEngine
from turnwise.engines.wire import content_digest, digest_of, pack, read_asks, unpack, write_asks
from turnwise.setup.bench import open_engine
from turnwise.types import Sampling
from turnwise.types.protocols import Adapter, Ask, EngineDown

TOKEN = "a-token-that-nobody-guesses"
PROMPT = some_ids(random.Random(7), 60)
LIMIT = 1_000_000
"""The largest publication that the shared server accepts, in bytes: above one tiny model, below two."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_recipe(tmp_path_factory.mktemp("served"), engine={"max_batch": 4})


@pytest.fixture(scope="module")
def server(recipe: Path) -> Iterator[Serving]:
    """One for all tests that publish before they sample."""
    with serving(recipe, "--port", "0", "--max-weights-gb", str(LIMIT / 1e9), token=TOKEN) as started:
        yield started


# --- the same numbers --------------------------------------------------------------------------------------


def test_asks_and_weights_are_transferred_exactly() -> None:
    sampling = Sampling(33, 0.1 + 0.2, 1 / 3, frozenset({5, 2**31 - 1}))
    asks = [Ask(tuple(PROMPT), sampling, 2**63 - 1), Ask((), Sampling(), 0)]
    assert read_asks(write_asks(asks, "abc")) == (asks, "abc")
    tied = torch.randn(4, 4)
    weights = {"half": torch.randn(3, 5).bfloat16(), "turned": torch.randn(4, 6).T, "x": tied, "y": tied}
    read = unpack(pack(weights, 7).content)
    assert read.version == 7
    assert set(read.weights) == {"half", "turned", "x"}  # type: ignore[arg-type]
    for name, tensor in read.weights.items():  # type: ignore[union-attr]
        assert tensor.dtype == weights[name].dtype
        assert torch.equal(tensor, weights[name])
    again = unpack(pack(Adapter({"m.lora_A": tied}, 3, 0.1), 8, "base").content)
    assert isinstance(again.weights, Adapter)
    assert (again.weights.rank, again.weights.alpha, again.over) == (3, 0.1, "base")


async def test_ids_and_logprobs_are_those_of_the_engine_in_process(server: Serving) -> None:
    stop = frozenset(range(0, VOCAB, 7))
    asks = [
        Ask(tuple(PROMPT[:10]), Sampling(max_tokens=20), 1),
        Ask(tuple(PROMPT), Sampling(max_tokens=40, stop_ids=stop), 2**62 + 1),
        Ask(tuple(PROMPT[:30]), Sampling(max_tokens=20, temperature=0.7), 3),
        Ask(tuple(PROMPT[:31]), Sampling(max_tokens=9, temperature=0), 3),
        Ask(tuple(PROMPT[:5]), Sampling(max_tokens=9, top_p=0.5), 4),
    ]
    async with asking(server.url, token=TOKEN) as there, running(qwen3(), max_batch=4) as here:
        published: list[Any] = [qwen3(1).state_dict(), adapter(0), adapter(1), qwen3(2).state_dict()]
        for version, weights in enumerate(published, 1):
            for engine in (there, here):
                await engine.publish(weights, version)
            for ask in asks:
                mine = await here.complete(ask.prompt_ids, ask.sampling, ask.seed)
                assert await there.complete(ask.prompt_ids, ask.sampling, ask.seed) == mine
                assert mine.policy_version == version
            for engine in (there, here):
                await engine.forget()
            batch = [await asyncio.gather(*engine.submit(asks)) for engine in (there, here)]
            assert batch[0] == batch[1]
        last = await there.complete(PROMPT, Sampling(max_tokens=20), 9)
        assert worst_gap(qwen3(2), PROMPT, last) < 1e-4
        assert worst_gap(qwen3(1), PROMPT, last) > 0.5


async def test_a_completion_during_a_publication_is_of_one_version_or_the_other(
    server: Serving,
) -> None:
    async with asking(server.url, token=TOKEN) as engine:
        await engine.publish(qwen3(0).state_dict(), 0)
        jobs = []
        for version in range(1, 5):
            jobs += [
                asyncio.ensure_future(engine.complete(PROMPT[:20], Sampling(max_tokens=20), seed))
                for seed in range(3)
            ]
            await asyncio.sleep(0.02)
            await engine.publish(qwen3(version).state_dict(), version)
            after = await engine.complete(PROMPT, Sampling(max_tokens=3), 0)
            assert after.policy_version == version
        for completion in await asyncio.gather(*jobs):
            version = completion.policy_version
            assert worst_gap(qwen3(version), PROMPT[:20], completion) < 1e-4


async def test_a_client_that_disconnects_frees_its_place(server: Serving) -> None:
    async with asking(server.url, token=TOKEN) as engine:
        await engine.publish(qwen3().state_dict(), 1)
        started = time.perf_counter()
        await engine.complete([1, 2, 3], Sampling(max_tokens=200), 0)
        seconds = time.perf_counter() - started
        asks = [Ask((1, 2, n), Sampling(max_tokens=1000), n) for n in range(120)]
        long = engine.submit(asks)
        await asyncio.sleep(0.3)
        for completion in long:
            completion.cancel()
        await asyncio.gather(*long, return_exceptions=True)
        started = time.perf_counter()
        await engine.complete([1, 2, 3], Sampling(max_tokens=200), 0)
        # four rows at once: not cancelled, those before it would take 150 times as long
        assert time.perf_counter() - started < 20 * seconds


async def test_a_callers_own_model_is_published_when_a_recipe_is_opened(
    server: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    settings = Recipe.model_validate({"engine": {"kind": "remote", "remote": {"url": server.url}}})
    async with AsyncExitStack() as exits:
        engine = await open_engine(settings, exits, qwen3(3))
        completion = await engine.complete(PROMPT, Sampling(max_tokens=8), 0)
        assert worst_gap(qwen3(3), PROMPT, completion) < 1e-4


# --- whose weights -----------------------------------------------------------------------------------------


async def test_two_runs_never_sample_from_each_others_weights(server: Serving) -> None:
    async with (
        asking(server.url, token=TOKEN) as one,
        asking(server.url, token=TOKEN) as two,
        asking(server.url, token=TOKEN) as none,
    ):
        await one.publish(qwen3(1).state_dict(), 5)
        await one.publish(adapter(3), 6)
        expected = await one.complete(PROMPT, Sampling(max_tokens=8), 0)
        await two.publish(qwen3(2).state_dict(), 6)  # the same number, other weights
        completion = await two.complete(PROMPT, Sampling(max_tokens=8), 0)
        assert worst_gap(qwen3(2), PROMPT, completion) < 1e-4
        assert await one.complete(PROMPT, Sampling(max_tokens=8), 0) == expected
        await refused(none.complete(PROMPT, Sampling(max_tokens=1), 0), ValueError, "version 6 that another")
        await refused(none.publish(adapter(1), 1), ValueError, "over other whole weights")


async def test_weights_that_were_changed_in_transit_are_refused(server: Serving) -> None:
    async with asking(server.url, token=TOKEN) as engine:
        await engine.publish(qwen3(1).state_dict(), 1)
        before = await engine.connect()
        content = bytearray(pack(qwen3(2).state_dict(), 2).content)
        digest = digest_of(content)
        content[-1] ^= 1
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Digest": content_digest(digest)}
        url = f"{server.url}/publish"
        client = httpx2.AsyncClient()
        assert (await client.post(url, content=bytes(content), headers=headers)).status_code == 422
        del headers["Content-Digest"]
        assert (await client.post(url, content=bytes(content), headers=headers)).status_code == 422
        await client.aclose()
        assert await engine.connect() == before


async def test_a_body_beyond_the_limit_is_refused(server: Serving) -> None:
    async with asking(server.url, token=TOKEN) as engine:
        await engine.publish(qwen3(1).state_dict(), 1)
        twice = {name: torch.cat([tensor] * 3) for name, tensor in qwen3(1).state_dict().items()}
        await refused(engine.publish(twice, 2), ValueError, r"GB, the server takes 0\.001 \(--max-weights")
        completion = await engine.complete(PROMPT, Sampling(max_tokens=3), 0)
        assert completion.policy_version == 1
    headers = {"Authorization": f"Bearer {TOKEN}"}

    def pieces() -> Iterator[bytes]:
        for _ in range(LIMIT // 1000 + 1):
            yield b"x" * 1000

    with httpx2.Client(headers=headers) as client:
        for content in (b"x" * (LIMIT + 1), pieces()):  # with a length, and without
            assert client.post(f"{server.url}/publish", content=content).status_code == 413
        assert client.post(f"{server.url}/complete", content=b"x" * (64 * 2**20 + 1)).status_code == 413


# --- who is served -----------------------------------------------------------------------------------------


async def test_only_clients_with_the_token_are_served(server: Serving) -> None:
    for wrong in ("", "wrong", TOKEN[:-1]):
        async with asking(server.url, token=wrong) as engine:
            for asked in (
                engine.connect(),
                engine.complete(PROMPT, Sampling(), 0),
                engine.publish(qwen3().state_dict(), 1),
                engine.forget(),
                engine.sleep(),
            ):
                await refused(asked, EngineDown, "TURNWISE_ENGINE_TOKEN")
    for headers, status in [
        ({}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}, 403),
        ({"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}, 421),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
    ]:
        assert httpx2.get(f"{server.url}/health", headers=headers).status_code == status
    with pytest.raises(ValueError, match="not allowed in a header"):
        RemoteEngine(server.url, token="two words")


def test_the_token_is_never_printed(recipe: Path) -> None:
    with serving(recipe, token=TOKEN) as server:
        httpx2.get(f"{server.url}/health?token={TOKEN}", headers={"Authorization": f"Bearer {TOKEN}"})
        httpx2.get(f"{server.url}/nothing", headers={"Authorization": f"Bearer {TOKEN}"})
        code, said = server.end(signal.SIGTERM)
    assert code == 0
    assert TOKEN not in server.line + said
