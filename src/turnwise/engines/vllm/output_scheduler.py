"""A vLLM scheduler that holds a request's tokens back until the request is finished.

vLLM sends every token of every request to our process separately, with log-probs in three arrays of one
entry. We read a turn only when it is complete, and with a small model that traffic costs more than the model
itself. Only vLLM imports this module, by name.
"""

from typing import Any

import numpy as np
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.outputs import LogprobsLists


class HoldingBack:
    """A mixin for vLLM's schedulers that holds back the outputs of unfinished requests."""

    requests: dict[str, Any]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held: dict[str, list[Any]] = {}

    def update_from_output(self, *arguments: Any, **options: Any) -> dict[int, Any]:
        batches: dict[int, Any] = super().update_from_output(*arguments, **options)  # type: ignore[misc]
        for client, batch in list(batches.items()):
            batch.outputs = self._ended(batch.outputs)
            if not batch.outputs and batch.finished_requests is None and batch.scheduler_stats is None:
                del batches[client]  # nothing is left to send
        return batches

    def _ended(self, outputs: list[Any]) -> list[Any]:
        ended = []
        for output in outputs:
            if output.finish_reason is None:
                self._held.setdefault(output.request_id, []).append(output)
            else:
                ended.append(_joined([*self._held.pop(output.request_id, ()), output]))
        return ended

    def finish_requests(self, *arguments: Any, **options: Any) -> Any:
        """Also drop what was held of requests that end without a last output: they were cancelled."""
        gone = super().finish_requests(*arguments, **options)  # type: ignore[misc]
        self._held = {name: held for name, held in self._held.items() if name in self.requests}
        return gone


def _joined(outputs: list[Any]) -> Any:
    """Return the last output with the tokens and log-probs of all."""
    first, last = outputs[0], outputs[-1]
    if len(outputs) > 1:
        last.new_token_ids = [token for output in outputs for token in output.new_token_ids]
        last.prefill_stats = first.prefill_stats
        sampled = [output.new_logprobs for output in outputs if output.new_logprobs is not None]
        if sampled:
            ids, logprobs, ranks = (np.concatenate(arrays) for arrays in list(zip(*sampled, strict=True))[:3])
            last.new_logprobs = LogprobsLists(ids, logprobs, ranks)
    return last


class WholeTurnScheduler(HoldingBack, Scheduler):  # type: ignore[misc]
    """For CPUs: a step is planned after the previous one has run."""


class WholeTurnAsyncScheduler(HoldingBack, AsyncScheduler):  # type: ignore[misc]
    """For GPUs: a step is planned while the previous one runs."""
