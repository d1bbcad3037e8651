"""KL estimators against known values and gradients; the adaptive coefficient; the cap that skips updates."""

import math

import pytest
import torch
from torch import Tensor

from turnwise.training.algorithms.kl import KL_LOSSES, adapt, is_over_cap, k1, k2, k3, reward_penalty

P = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
Q = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
ALL = torch.ones(1, 3)
ESTIMATORS = {"k1": k1, "k2": k2, "k3": k3}
KL, KL_GRADIENT = 0.0851228, [0.1759446, -0.0981176, -0.0778270]


def policy() -> tuple[Tensor, Tensor]:
    """The logits of P and its log-probs [1, 3], with a graph between them."""
    logits = P.log().clone().requires_grad_()
    return logits, logits.log_softmax(-1)[None]


def slope(expectation: Tensor, logits: Tensor) -> list[float]:
    (gradient,) = torch.autograd.grad(expectation, logits)
    return list(gradient.tolist())


@pytest.mark.parametrize(
    ("name", "value", "gradient"),
    [("k1", KL, [0, 0, 0]), ("k2", 0.0800876, KL_GRADIENT), ("k3", KL, [0.2, -0.1, -0.1])],
)
def test_expected_values_and_gradients_of_the_estimators_are_the_known_answers(
    name: str, value: float, gradient: list[float]
) -> None:
    logits, logprobs = policy()
    found = (P * ESTIMATORS[name](logprobs, Q.log()[None], ALL)).sum()
    assert found.item() == pytest.approx(value, abs=1e-7)
    assert slope(found, logits) == pytest.approx(gradient, abs=1e-7)


def test_the_gradient_of_kl_itself_is_the_known_answer() -> None:
    logits, logprobs = policy()
    kl = (logprobs.exp() * (logprobs - Q.log())).sum()
    assert slope(kl, logits) == pytest.approx(KL_GRADIENT, abs=1e-7)


@pytest.mark.parametrize("name", KL_LOSSES)
def test_every_kl_loss_has_the_gradient_of_kl(name: str) -> None:
    logits, logprobs = policy()
    found = KL_LOSSES[name](logprobs, Q.log()[None], P.log()[None], ALL)
    assert slope((P * found).sum(), logits) == pytest.approx(KL_GRADIENT, abs=1e-7)


def test_k3_ratio_stays_exact_after_the_policy_has_moved_away_from_the_sampler() -> None:
    old = torch.tensor([0.4, 0.4, 0.2], dtype=torch.float64)
    logits, logprobs = policy()
    found = (old * KL_LOSSES["k3_ratio"](logprobs, Q.log()[None], old.log()[None], ALL)).sum()
    assert found.item() == pytest.approx(KL, abs=1e-7)
    assert slope(found, logits) == pytest.approx(KL_GRADIENT, abs=1e-7)


@pytest.mark.parametrize("name", [*ESTIMATORS, *KL_LOSSES])
def test_masked_positions_have_no_effect(name: str) -> None:
    logprobs = torch.tensor([[-1.0, math.nan]], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([[-2.0, math.inf]], dtype=torch.float64)
    mask = torch.tensor([[1, 0]])
    if name in ESTIMATORS:
        found = ESTIMATORS[name](logprobs, ref, mask)
    else:
        found = KL_LOSSES[name](logprobs, ref, ref - 0.1, mask)
    (gradient,) = torch.autograd.grad(found.sum(), logprobs)
    assert found[0, 0].item() > 0
    assert (found[0, 1].item(), gradient[0, 1].item()) == (0.0, 0.0)


def test_a_policy_equal_to_its_reference_has_kl_exactly_zero() -> None:
    for estimator in ESTIMATORS.values():
        assert (estimator(P.log()[None], P.log()[None], ALL) == 0).all()


def test_k3_is_never_negative_and_stays_finite_far_away() -> None:
    found = k3(torch.tensor([[-0.1, -200.0, -1.0]]), torch.tensor([[-200.0, -0.1, -1.5]]), ALL)
    assert (found >= 0).all()
    assert found.isfinite().all()


def test_kl_in_the_reward_is_a_penalty_without_gradient() -> None:
    old = torch.tensor([[-1.0, -2.0, -9.0]], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([[-1.5, -1.0, -1.0]], dtype=torch.float64)
    penalty = reward_penalty(old, ref, torch.tensor([[1, 1, 0]]), 0.1)
    assert penalty[0].tolist() == pytest.approx([-0.05, 0.1, 0.0])
    assert not penalty.requires_grad


# --- coefficient and cap -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "kl", "after"),
    [
        (0.01, 0.11, 0.01 * 1.01),
        (0.01, 0.09, 0.01 * 0.99),
        (0.01, 0.1, 0.01),
        (0.01, 50.0, 0.01 * 1.02),
        (0.01, 0.0, 0.01 * 0.98),
        (1e-5, 0.0, 1e-5),
        (1.0, 9.0, 1.0),
        (0.01, math.nan, 0.01),
        (0.01, math.inf, 0.01),
    ],
)
def test_the_coefficient_follows_the_target_of_a_tenth_within_its_bounds(
    before: float, kl: float, after: float
) -> None:
    assert adapt(before, kl, target=0.1) == pytest.approx(after)


def test_the_coefficient_has_a_gain_and_needs_a_positive_target() -> None:
    assert adapt(0.01, 50.0, target=0.1, gain=1.0) == pytest.approx(0.012)
    with pytest.raises(ValueError, match="above 0"):
        adapt(0.01, 0.1, target=0.0)


@pytest.mark.parametrize(
    ("kl", "is_over"), [(2.9, False), (3.0, False), (3.1, True), (math.nan, True), (math.inf, True)]
)
def test_the_cap_skips_above_three_nats_and_on_nan(kl: float, is_over: bool) -> None:
    assert is_over_cap(kl) is is_over


@pytest.mark.parametrize("name", KL_LOSSES)
def test_far_past_the_cap_the_gradient_still_pulls_back(name: str) -> None:
    logprobs = torch.tensor([[-0.01]], dtype=torch.float64, requires_grad=True)
    ref = torch.tensor([[-60.0]], dtype=torch.float64)
    loss = KL_LOSSES[name](logprobs, ref, logprobs.detach(), torch.ones(1, 1)).sum()
    (gradient,) = torch.autograd.grad(loss, logprobs)
    assert gradient.item() > 1.0
