"""Which way the entropy bonus pushes the logits."""

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical

from turnwise.algorithms.losses import with_entropy_bonus


def entropy(logits_BTV: Tensor) -> Tensor:
    return Categorical(logits=logits_BTV).entropy()


def test_a_gradient_step_raises_entropy_only_at_learnable_tokens() -> None:
    logits = torch.tensor([[[2.0, 0.0, -1.0], [2.0, 0.0, -1.0]]], dtype=torch.float64, requires_grad=True)
    loss = with_entropy_bonus(torch.zeros(1, 2), entropy(logits), torch.tensor([[1, 0]]), 0.01)
    assert loss[0].tolist() == pytest.approx([-0.01 * entropy(logits)[0, 0].item(), 0.0])
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    change = (entropy(logits - gradient) - entropy(logits))[0].tolist()
    assert change[0] > 0
    assert change[1] == 0
