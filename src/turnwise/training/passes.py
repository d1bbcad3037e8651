"""Takes a policy and a token budget, gives its scores of any number of samples, in micro-batches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from turnwise.training.batch import Batch, widened
from turnwise.training.layout import microbatches
from turnwise.training.policy import Policy, Scores
from turnwise.training.reference import Reference
from turnwise.training.samples import Sample


@dataclass(frozen=True, slots=True)
class Measured:
    """Scores of a whole batch, without gradients."""

    logprobs_BT: Tensor
    values_BT: Tensor | None
    bootstrap_B: Tensor | None


class Passes:
    """Forward passes over a whole batch without gradients, or over one micro-batch at a time with them."""

    def __init__(self, policy: Policy, *, tokens_per_microbatch: int, is_shared: bool = True) -> None:
        self._policy = policy
        self._tokens = tokens_per_microbatch
        self._is_shared = is_shared and policy.can_share
        self.num_computed = 0
        """Tokens that gradient passes went over so far, padding too."""

    def parts(self, samples: Sequence[Sample], rows: Sequence[int]) -> list[list[int]]:
        """These rows in micro-batches, in an order that depends on the samples' tokens alone."""
        chosen = [samples[row] for row in rows]
        places = microbatches(chosen, self._tokens, is_shared=self._is_shared)
        return [[rows[place] for place in part] for part in places]

    def live(self, samples: Sequence[Sample], *, with_values: bool = False) -> Scores:
        """With gradients, of one micro-batch."""
        scores = self._policy.score(samples, with_values=with_values, is_shared=self._is_shared)
        self.num_computed += scores.num_tokens
        return scores

    def measure(self, batch: Batch, *, with_values: bool = False) -> Measured:
        """The policy as it is now."""
        ask = partial(self._policy.score, with_values=with_values, with_entropy=False)
        return self._whole(batch, range(batch.num_rows), ask)

    def logprobs_of(self, batch: Batch, rows: Sequence[int]) -> Tensor:
        """The policy's as it is now; 0 in all other rows."""
        logprobs_BT = torch.zeros_like(batch.sampler_logprobs_BT)
        ask = partial(self._policy.score, with_entropy=False)
        logprobs_BT[list(rows)] = self._whole(batch, rows, ask).logprobs_BT.to(logprobs_BT.dtype)
        return logprobs_BT

    def measure_reference(self, batch: Batch, reference: Reference) -> Tensor:
        return self._whole(batch, range(batch.num_rows), reference.score).logprobs_BT

    @torch.no_grad()
    def _whole(self, batch: Batch, rows: Sequence[int], score: Callable[..., Scores]) -> Measured:
        """Of these rows, in their order."""
        parts = self.parts(batch.samples, rows)
        scores = [score([batch.samples[row] for row in part], is_shared=self._is_shared) for part in parts]
        width = batch.mask_BT.shape[1]
        place = {row: number for number, row in enumerate(row for part in parts for row in part)}
        back = torch.tensor([place[row] for row in rows], device=batch.mask_BT.device)

        def joined(pieces: Sequence[Tensor]) -> Tensor:
            return torch.cat([widened(piece, width) for piece in pieces])[back]

        values = [each.values_BT for each in scores if each.values_BT is not None]
        bootstraps = [each.bootstrap_B for each in scores if each.bootstrap_B is not None]
        return Measured(
            joined([each.logprobs_BT for each in scores]),
            joined(values) if values else None,
            torch.cat(bootstraps)[back] if bootstraps else None,
        )
