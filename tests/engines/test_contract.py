"""The contract of every engine; a new one in ENGINES is tested on arrival."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.engines.models import qwen3
from tests.engines.served import Serving, model_recipe
from turnwise.engines import ENGINES, engine_class
from turnwise.rollout.players.openai import NOT_FOR_TRAINING, OpenAIEndpoint
from turnwise.types import Finish, Sampling
from turnwise.types.protocols import Ask, BatchEngine, Engine, EngineDown

PROMPT = [3, 1, 4, 1, 5]


SERVER: dict[str, Any] = {}
"""The recipe, and the process that serves it while one does."""


@pytest.fixture(scope="module", autouse=True)
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    SERVER["recipe"] = model_recipe(tmp_path_factory.mktemp("served"))
    yield
    if "process" in SERVER:
        SERVER["process"].end()


def remote() -> Engine:
    """A client of a real server, which is restarted if it holds another test's weights."""
    if "process" in SERVER and SERVER["process"].health()["holding"]:
        SERVER.pop("process").end()
    if "process" not in SERVER:
        SERVER["process"] = Serving(str(SERVER["recipe"]), "--port", "0")
    engine: Engine = engine_class("remote")(SERVER["process"].url)
    return engine


MAKERS: dict[str, Callable[[], Engine]] = {
    "scripted": lambda: engine_class("scripted")(str.encode, 0, sequence=["hello, this is long enough"] * 20),
    "transformers": lambda: engine_class("transformers")(qwen3(), device="cpu"),
    "remote": remote,
}
ELSEWHERE = {"vllm"}
"""It needs a separate environment; tests/engines/test_vllm.py tests the same."""
ENDPOINTS = {"openai"}
"""They take messages, not tokens; see tests/engines/test_openai.py."""


def test_every_engine_is_under_this_contract() -> None:
    assert set(MAKERS) | ELSEWHERE | ENDPOINTS == set(ENGINES)


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'vlm' is not one of openai, remote, scripted, transformers, vllm"):
        engine_class("vlm")


@pytest.mark.parametrize("name", MAKERS)
async def test_a_completion_is_as_long_as_asked_and_an_empty_request_is_refused(name: str) -> None:
    engine = MAKERS[name]()
    completion = await engine.complete(PROMPT, Sampling(max_tokens=7), 0)
    assert len(completion.token_ids) == len(completion.logprobs) == 7
    assert all(logprob <= 0 for logprob in completion.logprobs)
    assert completion.finish is Finish.LENGTH
    assert completion.policy_version == 0
    for prompt, max_tokens in (([], 5), ([1], 0)):
        with pytest.raises(ValueError, match=r"prompt_ids|max_tokens"):
            await engine.complete(prompt, Sampling(max_tokens=max_tokens), 0)
    await engine.close()


@pytest.mark.parametrize("name", MAKERS)
async def test_completions_after_a_publication_carry_its_version(name: str) -> None:
    engine = MAKERS[name]()
    for version in (3, 4):
        await engine.publish(qwen3(version).state_dict(), version)
        completion = await engine.complete(PROMPT, Sampling(max_tokens=2), 0)
        assert completion.policy_version == version
    await engine.close()


@pytest.mark.parametrize("name", MAKERS)
async def test_a_closed_engine_is_down_and_may_be_closed_again(name: str) -> None:
    engine = MAKERS[name]()
    await engine.close()
    await engine.close()
    with pytest.raises(EngineDown):
        await engine.complete(PROMPT, Sampling(max_tokens=1), 0)
    with pytest.raises(EngineDown):
        await engine.publish(qwen3().state_dict(), 1)


@pytest.mark.parametrize("name", MAKERS)
async def test_a_bad_request_in_a_batch_does_not_affect_the_others(name: str) -> None:
    engine: Any = MAKERS[name]()
    assert isinstance(engine, BatchEngine)
    sampling = Sampling(max_tokens=4)
    prompts = [tuple(PROMPT), (), (2, 7), tuple(PROMPT)]
    asked = engine.submit([Ask(prompt, sampling, seed) for seed, prompt in enumerate(prompts)])
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(answers[1], ValueError)
    other = MAKERS[name]()
    alone = [await other.complete(prompts[seed], sampling, seed) for seed in (0, 2, 3)]
    await other.close()
    assert [answers[seed].token_ids for seed in (0, 2, 3)] == [completion.token_ids for completion in alone]
    await engine.forget()
    assert (await engine.complete(PROMPT, sampling, 0)).token_ids == alone[0].token_ids
    await engine.close()
    with pytest.raises(EngineDown):
        await asyncio.gather(*engine.submit([Ask(tuple(PROMPT), sampling, 0)]))


async def test_an_endpoint_says_that_it_cannot_be_trained() -> None:
    endpoint: Any = OpenAIEndpoint("http://127.0.0.1:9/v1", "some-model")
    with pytest.raises(ValueError, match="never be trained"):
        await endpoint.complete(PROMPT, Sampling(), 0)
    with pytest.raises(ValueError, match="takes no weights"):
        await endpoint.publish({}, 1)
    assert "log-probs" in NOT_FOR_TRAINING
    await endpoint.close()
