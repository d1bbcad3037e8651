"""The cross-entropy term on demonstrations, and its weight at a step."""

from collections.abc import Sequence

from torch import Tensor

from turnwise.config import ImitationConfig
from turnwise.training.algorithms.ratio import zero_where_masked
from turnwise.training.packing.samples import Sample


def weight_at(config: ImitationConfig, step: int) -> float:
    """Return the weight: linear from `config.weight` at step 0 to 0 at `num_steps`, then 0."""
    return config.weight * max(1 - step / config.num_steps, 0.0)


def cross_entropy(logprobs_BT: Tensor, mask_BT: Tensor, num_tokens: int) -> Tensor:
    """Return Σ −log π / `num_tokens`, counted over the minibatch, so that its micro-batches add up."""
    return -zero_where_masked(logprobs_BT, mask_BT).sum() / max(num_tokens, 1)


def num_own_tokens(samples: Sequence[Sample]) -> int:
    return sum(sample.num_own_tokens for sample in samples)
