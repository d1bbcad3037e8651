"""The full loss of docs/design/algorithms.md: its gradients do not depend on batching, order or padding."""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from turnwise.training.algorithms.aggregate import AGGREGATIONS, count
from turnwise.training.algorithms.correction import CORRECTIONS, CorrectionLimits
from turnwise.training.algorithms.kl import KL_LOSSES
from turnwise.training.algorithms.losses import LOSSES, Bounds, with_entropy_bonus

MASK = torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
PROMPTS = ["a", "a", "b", "b"]


def table(seed: int) -> Tensor:
    return torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * 0.3 - 2


def widen(values: Tensor, padding: int) -> Tensor:
    return torch.cat([values, torch.full((len(values), padding), math.nan, dtype=values.dtype)], dim=1)


def gradient_of(names: tuple[str, str, str, str], parts: Sequence[Sequence[int]], padding: int = 0) -> Tensor:
    """The gradient of the full loss in the log-probs, accumulated over micro-batches of these rows."""
    loss_name, aggregation, correction, kl = names
    mask = torch.cat([MASK, torch.zeros(4, padding, dtype=MASK.dtype)], dim=1)
    sampler, old, ref, advantages, entropy = (widen(table(seed), padding) for seed in range(5))
    logprobs = widen(table(5), padding).requires_grad_()
    fix = CORRECTIONS[correction](sampler, old, mask, CorrectionLimits())
    whole = count(fix.mask_BT.sum(1).tolist(), PROMPTS, max_tokens=6)
    for rows in map(list, parts):
        kept = fix.mask_BT[rows]
        found = LOSSES[loss_name](
            logprobs[rows], fix.base_logprobs_BT[rows], advantages[rows], kept, Bounds()
        )
        losses = found.losses_BT * fix.weights_BT[rows]
        losses = losses + 0.1 * KL_LOSSES[kl](logprobs[rows], ref[rows], old[rows], kept)
        losses = with_entropy_bonus(losses, entropy[rows] - logprobs[rows], kept, 0.01)
        AGGREGATIONS[aggregation](losses, kept, whole.of_rows(rows)).backward()  # type: ignore[no-untyped-call]
    assert logprobs.grad is not None
    assert (logprobs.grad[~fix.mask_BT] == 0).all()
    return logprobs.grad[:, :5]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gradients_do_not_depend_on_batching_order_or_padding(loss: str, aggregation: str) -> None:
    for correction, kl in itertools.product(CORRECTIONS, KL_LOSSES):
        names = (loss, aggregation, correction, kl)
        plain = gradient_of(names, [[0, 1, 2, 3]])
        assert plain.abs().sum() > 0
        for parts in ([[0], [1], [2], [3]], [[2, 0, 3], [1]]):
            torch.testing.assert_close(gradient_of(names, parts, padding=2), plain, rtol=0, atol=1e-12)
