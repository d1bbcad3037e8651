"""Takes SkyRL's inference client, gives our Engine over it: token ids in, ids and log-probs out."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import aiohttp

from turnwise.protocols import Adapter, EngineDown
from turnwise.types import Completion, Finish, Sampling

if TYPE_CHECKING:  # SkyRL takes seconds to import, and a worker that plays has no other use for it
    from skyrl.backends.skyrl_train.inference_servers.base import InferenceEngineInterface

_FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH}
_NOT_NOW = (408, 425, 429)
"""Statuses that are the server's state and not the request's fault."""


class SessionEngine:
    """The engine of one episode: its turns go to the same server, where their prefix is cached."""

    def __init__(
        self, client: "InferenceEngineInterface", *, model: str, session: str, policy_version: int
    ) -> None:
        self._client = client
        self._model = model
        self._session = session
        self._policy_version = policy_version

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn; SkyRL's servers give log-probs of the distribution that was drawn from."""
        # Nothing else of SkyRL's own parameters: its `min_tokens` of 1 would forbid a stop token, and the
        # log-probs of what was sampled would not be those of what is trained.
        params = {
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stop_token_ids": sorted(sampling.stop_ids),
            "seed": seed,
            "logprobs": 0,
            "skip_special_tokens": False,
        }
        asked = {
            "prompt_token_ids": [list(prompt_ids)],
            "sampling_params": params,
            "session_ids": [self._session],
            # what older weights have cached is not for these
            "cache_salt": str(self._policy_version),
        }
        try:
            answer = await self._client.generate(asked, model=self._model)
        except aiohttp.ClientResponseError as error:
            if 400 <= error.status < 500 and error.status not in _NOT_NOW:
                raise ValueError(f"SkyRL's engine refused a request: {error.message:.500}") from None
            raise EngineDown(f"SkyRL's engine: status {error.status}: {error.message:.500}") from error
        except (aiohttp.ClientError, OSError, RuntimeError, json.JSONDecodeError) as error:
            raise EngineDown(f"SkyRL's engine: {type(error).__name__}: {error}") from error
        return _completion(answer, sampling.max_tokens, self._policy_version)

    async def finish(self) -> None:
        """The episode is over: its place at a server is free."""
        await self._client.finish_session(self._session)

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        raise ValueError("SkyRL's trainer hands its engines their weights itself")

    async def close(self) -> None: ...


def _completion(answer: Mapping[str, Any], max_tokens: int, policy_version: int) -> Completion:
    """What came back, checked; EngineDown if it is no completion with its log-probs."""
    try:
        [ids], [logprobs] = answer["response_ids"], answer["response_logprobs"]
        [reason] = answer["stop_reasons"]
        token_ids = tuple(int(token) for token in ids)
        values = tuple(float(value) for value in logprobs)
    except (KeyError, TypeError, ValueError) as error:
        raise EngineDown(f"SkyRL's engine gave no completion with its log-probs: {error!r:.200}") from None
    if not 1 <= len(token_ids) == len(values) <= max_tokens:
        text = f"{len(token_ids)} tokens, {len(values)} log-probs, {max_tokens} tokens at most"
        raise EngineDown(f"SkyRL's engine: {text}")
    if reason not in _FINISHES or not all(map(math.isfinite, values)):
        raise EngineDown(f"SkyRL's engine stopped by {reason!r:.50}, or a log-prob is no number")
    return Completion(token_ids, values, _FINISHES[reason], policy_version)
