"""Policy and value losses and their gradients against known answers; masked positions have no effect."""

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical

from turnwise.training.algorithms.losses import (
    DEFAULT_BOUNDS,
    LOSSES,
    Bounds,
    PolicyLoss,
    clip,
    gspo,
    value_loss,
    with_entropy_bonus,
)
from turnwise.training.algorithms.ratio import exp_bounded


def row(values: list[float]) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def slope(found: PolicyLoss, logprobs: Tensor) -> Tensor:
    """The gradient of the summed loss."""
    (gradient,) = torch.autograd.grad(found.losses_BT.sum(), logprobs)
    return gradient


@pytest.mark.parametrize(
    ("ratio", "advantage", "dual", "surrogate", "gradient", "clipped"),
    [
        (1.29, 1.0, None, 1.28, 0.0, "high"),
        (0.5, -1.0, None, -0.8, 0.0, "low"),
        (5.0, -1.0, None, -5.0, 5.0, ""),
        (0.5, 1.0, None, 0.5, -0.5, ""),
        (1.27, 1.0, None, 1.27, -1.27, ""),
        (0.81, -1.0, None, -0.81, 0.81, ""),
        (1.0, 2.0, None, 2.0, -2.0, ""),
        (3.0, 0.0, None, 0.0, 0.0, ""),
        (5.0, -1.0, 3.0, -3.0, 0.0, "dual"),
        (2.9, -1.0, 3.0, -2.9, 2.9, ""),
        (1.2, 1.0, 3.0, 1.2, -1.2, ""),
        (5.0, 1.0, 3.0, 1.28, 0.0, "high"),
    ],
)
def test_clip_known_answers_with_live_and_dead_gradients(
    ratio: float, advantage: float, dual: float | None, surrogate: float, gradient: float, clipped: str
) -> None:
    """One token at this ratio; the surrogate is the negative loss, the gradient is in the log-prob."""
    logprobs = row([math.log(ratio) - 2.0]).requires_grad_()
    found = clip(logprobs, row([-2.0]), row([advantage]), row([1]), Bounds(0.2, 0.28, dual=dual))
    assert -found.losses_BT.item() == pytest.approx(surrogate, abs=1e-12)
    assert slope(found, logprobs).item() == pytest.approx(gradient, abs=1e-12)
    assert found.ratio_BT.item() == pytest.approx(ratio)
    assert not found.ratio_BT.requires_grad
    sides = {
        "low": found.is_clipped_low_BT,
        "high": found.is_clipped_high_BT,
        "dual": found.is_clipped_dual_BT,
    }
    assert [side for side, flag in sides.items() if flag.item()] == [clipped][: len(clipped)]


@pytest.mark.parametrize("bad", [{"low": -0.1}, {"low": 1.5}, {"high": -1.0}, {"dual": 1.0}])
def test_invalid_bounds_are_rejected(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="clip"):
        Bounds(**bad)


# --- against REINFORCE, computed without autograd -----------------------------------------------------------

TOKENS = torch.tensor([[2, 0, 1, 3], [1, 1, 3, 0]])
MASK = torch.tensor([[1, 0, 1, 1], [1, 1, 0, 0]])
LOGITS = torch.randn(2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
ADVANTAGES = torch.tensor([[0.7] * 4, [-1.3] * 4], dtype=torch.float64)


def picked(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(-1, TOKENS[..., None])[..., 0]


@pytest.mark.parametrize("name", LOSSES)
def test_the_first_minibatch_has_ratio_exactly_one_and_the_gradient_of_reinforce(name: str) -> None:
    logits = LOGITS.clone().requires_grad_()
    logprobs = picked(logits)
    found = LOSSES[name](logprobs, logprobs.detach(), ADVANTAGES, MASK, DEFAULT_BOUNDS[name])
    assert torch.equal(found.ratio_BT, torch.ones(2, 4, dtype=torch.float64))
    assert not (found.is_clipped_low_BT | found.is_clipped_high_BT | found.is_clipped_dual_BT).any()
    # the gradient of −A·log π by its formula: −A·(onehot − p) at own tokens
    chosen = torch.nn.functional.one_hot(TOKENS, 5).double()
    expected = -(ADVANTAGES * MASK)[..., None] * (chosen - LOGITS.softmax(-1))
    torch.testing.assert_close(slope(found, logits), expected, rtol=0, atol=1e-12)
    assert expected.norm() > 0.1


@pytest.mark.parametrize("name", LOSSES)
def test_masked_positions_have_no_gradient_and_no_effect(name: str) -> None:
    away = MASK == 0

    def loss_with(fill: float) -> tuple[PolicyLoss, Tensor]:
        logprobs = picked(LOGITS).masked_fill(away, fill).requires_grad_()
        old = (picked(LOGITS) - 0.1).masked_fill(away, fill)
        found = LOSSES[name](logprobs, old, ADVANTAGES.masked_fill(away, fill), MASK, DEFAULT_BOUNDS[name])
        return found, slope(found, logprobs)

    plain, plain_gradient = loss_with(-1.0)
    for rubbish in (5.0, math.nan, math.inf, -math.inf):
        found, gradient = loss_with(rubbish)
        assert torch.equal(found.losses_BT, plain.losses_BT)
        assert torch.equal(gradient, plain_gradient)
        assert (gradient[away] == 0).all()
        assert (found.losses_BT[away] == 0).all()
        assert (found.ratio_BT[away] == 1).all()
        assert not (found.is_clipped_low_BT | found.is_clipped_high_BT)[away].any()


@pytest.mark.parametrize("name", LOSSES)
def test_an_enormous_ratio_overflows_neither_loss_nor_gradient(name: str) -> None:
    logprobs = torch.tensor([[-0.1, -500.0]]).requires_grad_()
    old, mask = torch.tensor([[-500.0, -0.1]]), torch.ones(1, 2)
    found = LOSSES[name](logprobs, old, torch.tensor([[-1.0, 1.0]]), mask, DEFAULT_BOUNDS[name])
    assert found.losses_BT.isfinite().all()
    assert slope(found, logprobs).norm().isfinite()


def test_exp_bounded_keeps_its_gradient_past_the_bound() -> None:
    log_ratio = torch.tensor([100.0, 20.5, 3.0], requires_grad=True)
    ratio = exp_bounded(log_ratio)
    assert ratio.tolist() == pytest.approx([math.exp(20), math.exp(20), math.exp(3)], rel=1e-5)
    (gradient,) = torch.autograd.grad(ratio.sum(), log_ratio)
    assert gradient.tolist() == pytest.approx(ratio.tolist())


# --- gspo and cispo ----------------------------------------------------------------------------------------


def test_gspo_has_one_ratio_per_sequence_over_its_own_tokens() -> None:
    old = torch.full((2, 3), -1.0, dtype=torch.float64)
    change = torch.tensor([[0.3, 9.0, 0.1], [-0.2, 0.0, -0.4]], dtype=torch.float64)
    mask = torch.tensor([[1, 0, 1], [1, 1, 1]])
    logprobs = (old + change).requires_grad_()
    wide = Bounds(low=0.9, high=9.0)
    found = gspo(logprobs, old, torch.tensor([[2.0] * 3, [-1.0] * 3], dtype=torch.float64), mask, wide)
    first, second = math.exp(0.4 / 2), math.exp(-0.6 / 3)
    assert found.ratio_BT[0].tolist() == pytest.approx([first, 1.0, first])
    assert found.ratio_BT[1].tolist() == pytest.approx([second] * 3)
    assert found.losses_BT[0].tolist() == pytest.approx([-2 * first, 0, -2 * first])
    # the sequence mean is −s·A, whose gradient is −s·A/|y| at every own token
    (gradient,) = torch.autograd.grad((found.losses_BT.sum(1) / mask.sum(1)).sum(), logprobs)
    assert gradient[0].tolist() == pytest.approx([-2 * first / 2, 0, -2 * first / 2])
    assert gradient[1].tolist() == pytest.approx([second / 3] * 3)


def test_gspo_clips_whole_sequences() -> None:
    old = torch.zeros(2, 2, dtype=torch.float64)
    logprobs = torch.tensor([[0.5, -0.1], [0.5, -0.5]], dtype=torch.float64).requires_grad_()
    found = gspo(logprobs, old, torch.ones(2, 2, dtype=torch.float64), torch.ones(2, 2), Bounds(0.1, 0.1))
    assert found.is_clipped_high_BT.tolist() == [[True, True], [False, False]]
    assert slope(found, logprobs).tolist() == [[0.0, 0.0], [-1.0, -1.0]]


def test_cispo_keeps_the_gradient_of_a_clipped_token_at_the_clipped_weight() -> None:
    old = row([-1.0] * 4)
    logprobs = (old + row([2.0, 1.0, 0.1, 2.0]).log()).requires_grad_()
    bounds = Bounds(low=0.8, high=0.5)
    found = LOSSES["cispo"](logprobs, old, row([1, 1, 1, -1]), row([1] * 4), bounds)
    assert slope(found, logprobs)[0].tolist() == pytest.approx([-1.5, -1.0, -0.2, 1.5])
    assert found.is_clipped_high_BT[0].tolist() == [True, False, False, True]
    assert found.is_clipped_low_BT[0].tolist() == [False, False, True, False]


def test_cispo_by_default_cuts_only_large_weights() -> None:
    old = row([-1.0] * 2)
    logprobs = (old + row([50.0, 0.001]).log()).requires_grad_()
    found = LOSSES["cispo"](logprobs, old, row([1, 1]), row([1, 1]), DEFAULT_BOUNDS["cispo"])
    assert slope(found, logprobs)[0].tolist() == pytest.approx([-5.0, -0.001])


# --- entropy -----------------------------------------------------------------------------------------------


def test_the_entropy_bonus_raises_entropy_only_at_learnable_tokens() -> None:
    def entropy(logits: Tensor) -> Tensor:
        return Categorical(logits=logits).entropy()

    logits = torch.tensor([[[2.0, 0.0, -1.0]] * 2], dtype=torch.float64, requires_grad=True)
    loss = with_entropy_bonus(torch.zeros(1, 2), entropy(logits), torch.tensor([[1, 0]]), 0.01)
    assert loss[0].tolist() == pytest.approx([-0.01 * entropy(logits)[0, 0].item(), 0.0])
    (gradient,) = torch.autograd.grad(loss.sum(), logits)
    learnable, masked = (entropy(logits - gradient) - entropy(logits))[0].tolist()
    assert learnable > 0
    assert masked == 0


# --- values ------------------------------------------------------------------------------------------------


def test_value_loss_is_the_squared_error_and_clipping_takes_the_larger() -> None:
    values, old, returns = row([1.0, 3.0, 0.3, 9.0]), row([0.0, 0.0, 0.0, 0.0]), row([2.0, 2.0, 0.1, 0.0])
    mask = row([1, 1, 1, 0])
    assert value_loss(values, old, returns, mask)[0].tolist() == pytest.approx([1, 1, 0.04, 0])
    # within .5 of the old values: .5, .5, .3
    bounded = value_loss(values, old, returns, mask, max_change=0.5)
    assert bounded[0].tolist() == pytest.approx([2.25, 2.25, 0.04, 0])


@pytest.mark.parametrize("max_change", [None, 10.0])
def test_value_loss_pulls_towards_the_return_and_not_at_masked_positions(max_change: float | None) -> None:
    values = row([1.0, 3.0, math.nan]).requires_grad_()
    old, returns = row([0, 0, math.nan]), row([2, 2, math.nan])
    loss = value_loss(values, old, returns, row([1, 1, 0]), max_change=max_change)
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    assert gradient[0].tolist() == [-2.0, 2.0, 0.0]


def test_a_value_that_has_already_moved_past_its_bound_is_not_pushed_further() -> None:
    values = row([1.0, 1.0]).requires_grad_()
    loss = value_loss(values, row([0, 0]), row([2, -2]), row([1, 1]), max_change=0.5)
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    assert gradient[0].tolist() == [0.0, 6.0]
