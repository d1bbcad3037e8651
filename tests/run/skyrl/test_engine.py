"""Every answer and error of SkyRL's client becomes a completion with log-probs or a typed fault."""

import math
from typing import Any

import pytest

pytest.importorskip("aiohttp", reason="SkyRL is not installed: run `make test-skyrl`")

import aiohttp

from turnwise.run.skyrl.engine import SessionEngine
from turnwise.types import Finish, Sampling
from turnwise.types.protocols import EngineDown

SOUND = {"response_ids": [[5, 6]], "response_logprobs": [[-0.5, -1.0]], "stop_reasons": ["stop"]}


class Answering:
    """A client that returns or raises a fixed answer."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.asked: Any = None
        self.model = ""

    async def generate(self, input_batch: Any, model: str) -> Any:
        self.asked, self.model = input_batch, model
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


async def complete(client: Answering) -> Any:
    engine = SessionEngine(client, model="m", session="s", policy_version=3)
    return await engine.complete([1, 2], Sampling(2, 0.7, 0.9, frozenset({9, 8})), 11)


async def test_ids_are_sent_and_ids_and_logprobs_are_returned() -> None:
    client = Answering(SOUND)
    completion = await complete(client)
    assert (completion.token_ids, completion.logprobs) == ((5, 6), (-0.5, -1.0))
    assert (completion.finish, completion.policy_version) == (Finish.STOP, 3)
    assert client.asked["prompt_token_ids"] == [[1, 2]]
    assert client.asked["session_ids"] == ["s"]
    params = client.asked["sampling_params"]
    assert (params["max_tokens"], params["temperature"], params["top_p"]) == (2, 0.7, 0.9)
    assert (params["stop_token_ids"], params["seed"]) == ([8, 9], 11)
    assert client.model == "m"


@pytest.mark.parametrize(
    "answer",
    [
        {},
        SOUND | {"response_logprobs": None},
        SOUND | {"response_logprobs": [None]},
        SOUND | {"response_logprobs": [[-0.5]]},
        SOUND | {"response_logprobs": [[-0.5, math.nan]]},
        SOUND | {"response_ids": [[]], "response_logprobs": [[]]},
        SOUND | {"response_ids": [[5, 6, 7]], "response_logprobs": [[-1.0, -1.0, -1.0]]},
        SOUND | {"response_ids": [["x", 6]]},
        SOUND | {"stop_reasons": ["abort"]},
        RuntimeError("gone"),
        ConnectionResetError("gone"),
        TimeoutError(),
        aiohttp.ServerDisconnectedError(),
        aiohttp.ClientResponseError(None, (), status=503, message="busy"),
        aiohttp.ClientResponseError(None, (), status=429, message="busy"),
    ],
)
async def test_an_invalid_completion_is_an_engine_fault(answer: Any) -> None:
    with pytest.raises(EngineDown):
        await complete(Answering(answer))


async def test_a_rejected_request_is_a_value_error() -> None:
    refusal = aiohttp.ClientResponseError(None, (), status=400, message="the prompt is too long")
    with pytest.raises(ValueError, match="too long"):
        await complete(Answering(refusal))
