"""Entropy against hand-worked numbers, and the direction of its bonus."""

import math

import pytest
import torch

from turnwise.algorithms.entropy import entropy, with_entropy_bonus


def test_entropy_known_answers() -> None:
    p = torch.tensor([[[0.7, 0.2, 0.1], [1 / 3] * 3, [0.5, 0.5, 0.0]]], dtype=torch.float64)
    expected = [-(0.7 * math.log(0.7) + 0.2 * math.log(0.2) + 0.1 * math.log(0.1)), math.log(3), math.log(2)]
    assert entropy(p.log() + 4.0)[0].tolist() == pytest.approx(expected)


def test_a_logit_of_minus_infinity_leaves_value_and_gradient_finite() -> None:
    logits = torch.tensor([[[0.3, 0.1, -math.inf]]], requires_grad=True)
    (gradient,) = torch.autograd.grad(entropy(logits).sum(), logits)
    assert gradient.isfinite().all()
    assert gradient[0, 0, 0].item() < 0


def test_half_precision_is_computed_in_fp32() -> None:
    logits = torch.tensor([[[0.3, 0.1, 2.0]]])
    assert entropy(logits.bfloat16()).dtype == torch.float32


def test_a_gradient_step_raises_entropy_only_at_learnable_tokens() -> None:
    logits = torch.tensor([[[2.0, 0.0, -1.0], [2.0, 0.0, -1.0]]], dtype=torch.float64, requires_grad=True)
    loss = with_entropy_bonus(torch.zeros(1, 2), entropy(logits), torch.tensor([[1, 0]]), 0.01)
    assert loss[0].tolist() == pytest.approx([-0.01 * entropy(logits)[0, 0].item(), 0.0])
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    change = (entropy(logits - gradient) - entropy(logits))[0].tolist()
    assert change[0] > 0
    assert change[1] == 0
