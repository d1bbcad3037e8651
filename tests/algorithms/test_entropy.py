"""Entropy by hand, and which way its bonus pushes."""

import math

import pytest
import torch

from turnwise.algorithms.entropy import entropy, with_entropy_bonus


def test_entropy_known_answers() -> None:
    p = torch.tensor([[[0.7, 0.2, 0.1], [1 / 3] * 3, [0.5, 0.5, 0.0]]], dtype=torch.float64)
    expected = [-(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1)), math.log(3), math.log(2)]
    assert entropy(p.log() + 4.0)[0].tolist() == pytest.approx(expected)


def test_a_ruled_out_token_leaves_value_and_gradient_finite() -> None:
    logits = torch.tensor([[[0.3, 0.1, -math.inf]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(entropy(logits).sum(), logits)
    assert gradient.isfinite().all()
    assert gradient[0, 0, 0].item() < 0


def test_half_precision_is_widened() -> None:
    logits = torch.tensor([[[0.3, 0.1, 2.0]]])
    assert entropy(logits.bfloat16()).dtype == torch.float32


def test_a_step_down_the_loss_raises_entropy_where_tokens_are_learnable_only() -> None:
    logits = torch.tensor([[[2.0, 0.0, -1.0], [2.0, 0.0, -1.0]]], dtype=torch.float64, requires_grad=True)
    loss = with_entropy_bonus(torch.zeros(1, 2), entropy(logits), torch.tensor([[1, 0]]), 0.01)
    assert loss[0].tolist() == pytest.approx([-0.01 * entropy(logits)[0, 0].item(), 0.0])
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    change = (entropy(logits - gradient) - entropy(logits))[0].tolist()
    assert change[0] > 0
    assert change[1] == 0
