"""An Engine over SkyRL's inference client."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp

from turnwise.types import Completion, Finish, Sampling
from turnwise.types.protocols import Adapter, EngineDown

if TYPE_CHECKING:  # SkyRL takes seconds to import, and a worker needs it only for this type
    from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface

_FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH}
_TEMPORARY = (408, 425, 429)
"""Client error statuses that describe the state of the server, not a mistake in the request."""


class SessionEngine:
    """The engine of one episode: all turns go to the same server, which has their prefix in its cache."""

    def __init__(
        self, client: "InferenceEngineInterface", *, model: str, session: str, policy_version: int
    ) -> None:
        self._client = client
        self._model = model
        self._session = session
        self._policy_version = policy_version

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn; SkyRL's servers return log-probs of the sampling distribution."""
        # No other parameters of SkyRL: its `min_tokens` of 1 would exclude stop tokens, and the sampled
        # log-probs would not be those of the trained distribution.
        params = {
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stop_token_ids": sorted(sampling.stop_ids),
            "seed": seed,
            "logprobs": 0,
            "skip_special_tokens": False,
        }
        request = {
            "prompt_token_ids": [list(prompt_ids)],
            "sampling_params": params,
            "session_ids": [self._session],
            # a cache of older weights must not be used
            "cache_salt": str(self._policy_version),
        }
        try:
            answer = await self._client.generate(request, model=self._model)
        except aiohttp.ClientResponseError as error:
            if 400 <= error.status < 500 and error.status not in _TEMPORARY:
                raise ValueError(f"SkyRL's engine rejected a request: {error.message:.500}") from None
            raise EngineDown(f"SkyRL's engine: status {error.status}: {error.message:.500}") from error
        except (aiohttp.ClientError, OSError, RuntimeError, json.JSONDecodeError) as error:
            raise EngineDown(f"SkyRL's engine: {type(error).__name__}: {error}") from error
        return _completion(answer, sampling.max_tokens, self._policy_version)

    async def finish(self) -> None:
        """End the session, so that the server can free its cache."""
        await self._client.finish_session(self._session)

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        raise ValueError("SkyRL's trainer publishes weights to its engines itself")

    async def close(self) -> None: ...


def _completion(answer: Mapping[str, Any], max_tokens: int, policy_version: int) -> Completion:
    """The answer as a completion; EngineDown if it is not a valid completion with log-probs."""
    try:
        [ids], [logprobs] = answer["response_ids"], answer["response_logprobs"]
        [reason] = answer["stop_reasons"]
        token_ids = tuple(int(token) for token in ids)
        values = tuple(float(value) for value in logprobs)
    except (KeyError, TypeError, ValueError) as error:
        raise EngineDown(f"SkyRL's engine returned no completion with log-probs: {error!r:.200}") from None
    if not 1 <= len(token_ids) == len(values) <= max_tokens:
        text = f"{len(token_ids)} tokens and {len(values)} log-probs, max_tokens is {max_tokens}"
        raise EngineDown(f"SkyRL's engine returned {text}")
    if reason not in _FINISHES or not all(map(math.isfinite, values)):
        raise EngineDown(f"SkyRL's engine: stop reason {reason!r:.50}, or a log-prob is not finite")
    return Completion(token_ids, values, _FINISHES[reason], policy_version)
