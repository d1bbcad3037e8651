"""TRL with scripted turns instead of the sampled ones, for both of its trainers.

The asynchronous trainer plays in a child process, which imports this module: nothing heavy is imported here.
"""

import itertools
import random
from typing import Any

from episodes import Script, read_terms
from trl.experimental.async_grpo.async_rollout_worker import AsyncRolloutWorker, _AsyncRolloutLoop


class ScriptedLoop(_AsyncRolloutLoop):
    """TRL's rollout loop; only the tokens of a turn are replaced after sampling."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._terms = read_terms()
        self._script = Script(self._terms, self.tokenizer)
        self._numbers = itertools.count(random.getrandbits(40))

    async def _generate_one_turn(self, prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        ids, logprobs = await super()._generate_one_turn(prompt_ids)
        scripted = self._script.turn(next(self._numbers), self._terms.turn_of(len(prompt_ids)))
        assert len(ids) == len(scripted), f"{len(ids)} tokens were sampled"
        return scripted, logprobs

    async def _post(self, path: str, payload: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        if path == "/v1/completions":
            payload = {**payload, "ignore_eos": True}
        return await super()._post(path, payload, *arguments, **options)


class ScriptedWorker(AsyncRolloutWorker):
    _loop_cls = ScriptedLoop
