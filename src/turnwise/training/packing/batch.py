"""Samples as tensors over the model's own tokens, and their split into minibatches.

A row is a sample, a column one of its own tokens, from the left; prompts and tool output have no columns, so
"the next token" is always the next one that the model chose.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import torch
from torch import Tensor

from turnwise.training.packing.samples import Sample


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything an update needs to know about its samples, except the model's scores; on the CPU.

    own tokens of two samples        mask       turns
    a b c d     (a b | c d)          1 1 1 1    0 0 1 1
    e f                              1 1 0 0    0 0 . .
    """

    samples: tuple[Sample, ...]
    sampler_logprobs_BT: Tensor
    """μ's log-probs, recorded while sampling."""
    mask_BT: Tensor
    turn_BT: Tensor
    """The turn of each own token; -1 where the mask is 0."""

    @property
    def num_rows(self) -> int:
        return len(self.samples)

    @property
    def groups(self) -> dict[int, list[int]]:
        """Row numbers by group number, in ascending order of group numbers."""
        rows: dict[int, list[int]] = {}
        for row, sample in enumerate(self.samples):
            rows.setdefault(sample.group, []).append(row)
        return dict(sorted(rows.items()))


def batch_of(samples: Sequence[Sample]) -> Batch:
    lengths_B = torch.tensor([sample.num_own_tokens for sample in samples], dtype=torch.long)
    width = int(lengths_B.max()) if len(samples) else 0
    mask_BT = torch.arange(width) < lengths_B[:, None]
    logprobs_P = [logprob for sample in samples for logprob in compress(sample.logprobs, sample.loss_mask)]
    turn_P = [turn for sample in samples for turn in compress(sample.turns, sample.loss_mask)]
    logprobs_BT = torch.zeros(mask_BT.shape).masked_scatter(mask_BT, torch.tensor(logprobs_P))
    turn_BT = torch.full(mask_BT.shape, -1).masked_scatter(mask_BT, torch.tensor(turn_P, dtype=torch.long))
    return Batch(tuple(samples), logprobs_BT, mask_BT, turn_BT)


def minibatches(batch: Batch, num_minibatches: int, *, seed: int, step: int, epoch: int) -> list[list[int]]:
    """Return the row numbers of each minibatch: whole groups, shuffled by seed, step and epoch alone."""
    groups = list(batch.groups.values())
    if num_minibatches > 1:
        random.Random(f"{seed}/{step}/{epoch}").shuffle(groups)  # noqa: S311 (a shuffle, not a secret)
    num_parts = min(num_minibatches, len(groups))
    return [[row for group in groups[part::num_parts] for row in group] for part in range(num_parts)]


def widened(values_BT: Tensor, width: int) -> Tensor:
    """Pad with columns of 0 on the right: a micro-batch is only as wide as its longest row."""
    assert values_BT.shape[1] <= width, "a micro-batch is never wider than its batch"
    return torch.nn.functional.pad(values_BT, (0, width - values_BT.shape[1]))
