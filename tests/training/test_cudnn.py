"""Gradients at rounded lengths: padding adds nothing, whatever stands in the padded places."""

import itertools

import pytest
import torch
from torch import Tensor

from tests.training.test_attention import DEEP, gap, mask_of
from turnwise.training import cudnn
from turnwise.training.kernels import backward_piece

CPU = torch.device("cpu")
SCALE = 0.3


def dense_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    *,
    scale: float,
    is_causal: bool,
) -> tuple[Tensor, ...]:
    """What cuDNN's kernel computes, by the pieces of a CPU."""
    group = query.shape[1] // key.shape[1]
    keys = [each.repeat_interleave(group, 1) for each in (key, value)]
    inputs = (query, out, lse[..., 0].contiguous(), grad_out, *keys)
    grad_query, *of_keys = backward_piece(*inputs, scale=scale, is_causal=is_causal)
    return grad_query, *(each.unflatten(1, (-1, group)).sum(2) for each in of_keys)


def draw(*shape: int) -> Tensor:
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(len(shape) + shape[0]), dtype=torch.double
    )


@pytest.mark.parametrize(("num_before", "short"), [*itertools.product([0, 70], [40, 1024])])
def test_gradients_at_rounded_lengths_are_exact(
    num_before: int, short: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cudnn, "dense_backward", dense_backward)
    monkeypatch.setattr(cudnn, "SHORT", short)
    size = DEEP.segments[-1].end
    query = draw(size, 4, 16).requires_grad_()
    key, value = (draw(num_before + size, 2, 16).add(shift).requires_grad_() for shift in (0, 0.5))
    mask = torch.cat([torch.ones(size, num_before, dtype=torch.bool), mask_of(DEEP)], 1)
    wide = [each.repeat_interleave(2, 1) for each in (key, value)]
    scores = torch.einsum("nhd,mhd->hnm", query, wide[0]) * SCALE
    scores = scores.masked_fill(~mask, -torch.inf)
    out = torch.einsum("hnm,mhd->nhd", scores.softmax(-1), wide[1])
    grad_out = draw(size, 4, 16).flip(0)
    expected = torch.autograd.grad(out, (query, key, value), grad_out)
    saved = [each.detach() for each in (query, key, value, out, scores.logsumexp(-1))]
    plan = cudnn.plan_dense(DEEP.segments, num_before, CPU)
    assert bool(plan.windows) == (short == 40)
    found = cudnn.tree_backward(grad_out, *saved, plan, SCALE)
    assert gap(list(found), list(expected)) < 1e-12


@pytest.mark.parametrize("length", [1, 63, 64, 65, 300, 2500, 6000, 48_001])
def test_a_length_grows_by_a_sixteenth_at_most(length: int) -> None:
    assert length <= cudnn.rounded(length) <= max(length + 63, length * 17 / 16)
