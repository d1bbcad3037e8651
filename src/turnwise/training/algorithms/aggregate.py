"""Loss aggregation: from losses per token to a micro-batch's share of the loss of the whole batch.

The shares of all micro-batches and ranks *add up* to the loss of the whole batch. A mean of means would give
more weight to the tokens of short micro-batches.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.training.algorithms.ratio import zero_where_masked


@dataclass(frozen=True, slots=True)
class Denominators:
    """Counts to divide losses by, over the whole batch: all ranks and micro-batches together."""

    num_tokens: int
    """Learnable tokens."""
    num_sequences: int
    """Sequences with at least one learnable token."""
    num_prompts: int
    """Prompts with at least one learnable token in some member."""
    max_tokens: int
    """The fixed length that `constant` divides every sequence by."""
    num_tokens_of_prompt_B: tuple[int, ...]
    """For every row, the learnable tokens of all members of its prompt."""

    def of_rows(self, rows: Sequence[int]) -> "Denominators":
        """The denominators of the micro-batch made of these rows of the whole batch."""
        counts = tuple(self.num_tokens_of_prompt_B[row] for row in rows)
        return Denominators(self.num_tokens, self.num_sequences, self.num_prompts, self.max_tokens, counts)


def count(num_tokens_B: Sequence[int], prompt_B: Sequence[Hashable], *, max_tokens: int) -> Denominators:
    """Count over the whole batch, from the number of learnable tokens and the prompt of every row."""
    assert len(num_tokens_B) == len(prompt_B), "one prompt per row"
    of_prompt: Counter[Hashable] = Counter()
    for num_tokens, prompt_of_row in zip(num_tokens_B, prompt_B, strict=True):
        of_prompt[prompt_of_row] += num_tokens
    return Denominators(
        num_tokens=sum(num_tokens_B),
        num_sequences=sum(num_tokens > 0 for num_tokens in num_tokens_B),
        num_prompts=sum(num_tokens > 0 for num_tokens in of_prompt.values()),
        max_tokens=max_tokens,
        num_tokens_of_prompt_B=tuple(of_prompt[prompt_of_row] for prompt_of_row in prompt_B),
    )


def token(losses_BT: Tensor, mask_BT: Tensor, denominators: Denominators) -> Tensor:
    """Every learnable token of the batch has the same weight."""
    return zero_where_masked(losses_BT, mask_BT).sum() / max(denominators.num_tokens, 1)


def sequence(losses_BT: Tensor, mask_BT: Tensor, denominators: Denominators) -> Tensor:
    """Every sequence has the same weight: the mean over sequences of their token means."""
    num_tokens_B = mask_BT.bool().sum(dim=1).clamp(min=1)
    means_B = zero_where_masked(losses_BT, mask_BT).sum(dim=1) / num_tokens_B
    return means_B.sum() / max(denominators.num_sequences, 1)


def constant(losses_BT: Tensor, mask_BT: Tensor, denominators: Denominators) -> Tensor:
    """Dr.GRPO: a sequence's sum over one fixed length, so that length is neither rewarded nor penalised."""
    return zero_where_masked(losses_BT, mask_BT).sum() / max(
        denominators.num_sequences * denominators.max_tokens, 1
    )


def prompt(losses_BT: Tensor, mask_BT: Tensor, denominators: Denominators) -> Tensor:
    """Every prompt has the same weight: the mean over prompts of the token mean of their members."""
    counts_B = torch.tensor(
        denominators.num_tokens_of_prompt_B, dtype=losses_BT.dtype, device=losses_BT.device
    )
    shares_B = zero_where_masked(losses_BT, mask_BT).sum(dim=1) / counts_B.clamp(min=1)
    return shares_B.sum() / max(denominators.num_prompts, 1)


AGGREGATIONS: Mapping[str, Callable[[Tensor, Tensor, Denominators], Tensor]] = {
    "token": token,
    "sequence": sequence,
    "constant": constant,
    "prompt": prompt,
}
