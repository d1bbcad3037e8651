"""Takes losses by token and the whole batch's denominators, gives this micro-batch's share of the loss.

The shares of all micro-batches and ranks *add up* to the loss of the whole batch: a mean of means would weigh
the tokens of short micro-batches more.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.algorithms.ratio import zero_where_masked


@dataclass(frozen=True, slots=True)
class Denominators:
    """What losses are divided by: counts over the whole batch, all ranks and micro-batches together."""

    num_tokens: int
    """Learnable ones."""
    num_sequences: int
    """With at least one learnable token."""
    num_prompts: int
    """With at least one learnable token in some member."""
    max_tokens: int
    """`constant`: the length every sequence is divided by, whatever its own."""
    num_tokens_of_prompt_B: tuple[int, ...]
    """Learnable tokens of all members of each row's prompt."""

    def of_rows(self, rows: Sequence[int]) -> "Denominators":
        """For a micro-batch of these rows of the whole batch."""
        counts = tuple(self.num_tokens_of_prompt_B[row] for row in rows)
        return Denominators(self.num_tokens, self.num_sequences, self.num_prompts, self.max_tokens, counts)


def count(num_tokens_B: Sequence[int], prompt_B: Sequence[Hashable], *, max_tokens: int) -> Denominators:
    """From each row's number of learnable tokens and its prompt, over the whole batch."""
    assert len(num_tokens_B) == len(prompt_B), "one prompt a row"
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


def token(losses_BT: Tensor, mask_BT: Tensor, whole: Denominators) -> Tensor:
    """Every learnable token of the batch weighs the same."""
    return zero_where_masked(losses_BT, mask_BT).sum() / max(whole.num_tokens, 1)


def sequence(losses_BT: Tensor, mask_BT: Tensor, whole: Denominators) -> Tensor:
    """Every sequence weighs the same: the mean of each, then the mean of those."""
    num_tokens_B = mask_BT.bool().sum(dim=1).clamp(min=1)
    means_B = zero_where_masked(losses_BT, mask_BT).sum(dim=1) / num_tokens_B
    return means_B.sum() / max(whole.num_sequences, 1)


def constant(losses_BT: Tensor, mask_BT: Tensor, whole: Denominators) -> Tensor:
    """Dr.GRPO: each sequence's sum over one fixed length, so that length itself is neither paid nor fined."""
    return zero_where_masked(losses_BT, mask_BT).sum() / max(whole.num_sequences * whole.max_tokens, 1)


def prompt(losses_BT: Tensor, mask_BT: Tensor, whole: Denominators) -> Tensor:
    """Every prompt weighs the same: the token mean over its members, then the mean of those."""
    counts_B = torch.tensor(whole.num_tokens_of_prompt_B, dtype=losses_BT.dtype, device=losses_BT.device)
    shares_B = zero_where_masked(losses_BT, mask_BT).sum(dim=1) / counts_B.clamp(min=1)
    return shares_B.sum() / max(whole.num_prompts, 1)


AGGREGATIONS: Mapping[str, Callable[[Tensor, Tensor, Denominators], Tensor]] = {
    "token": token,
    "sequence": sequence,
    "constant": constant,
    "prompt": prompt,
}
