"""Hand-worked answers of the whole objective: ratios, bounds, aggregations and values."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.updates import recipe_of, sample_of
from turnwise.training.packing.batch import batch_of
from turnwise.training.policy.policy import Scores
from turnwise.training.update.objective import Objective, Shares
from turnwise.training.update.targets import Before, Lesson, Targets, Values

OLD = -2.0


def rows_of(rows: Sequence[Sequence[float]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *(math.nan,) * (width - len(row))] for row in rows])


def shares(
    ratios: Sequence[Sequence[float]],
    advantages: Sequence[Sequence[float]],
    *,
    values: tuple[Sequence[float], Sequence[float], Sequence[float]] | None = None,
    groups: Sequence[int] | None = None,
    **settings: Any,
) -> tuple[Shares, Tensor]:
    """The shares, and the gradient of their sum in the log-probs; masked positions hold NaN.

    values: of the only row before the update, now, and its returns.
    """
    objective = Objective(recipe_of(**settings))
    samples = [
        sample_of([([1, 2], [3] * len(row))], group=group)
        for row, group in zip(ratios, groups or range(len(ratios)), strict=True)
    ]
    batch = batch_of(samples)
    old_BT = torch.full(batch.mask_BT.shape, OLD)
    batch.sampler_logprobs_BT.copy_(old_BT)
    logprobs_BT = (OLD + rows_of(ratios).log()).requires_grad_()
    before, now, returns = (rows_of([row]) for row in values) if values else (None, None, None)
    live = Scores(logprobs_BT, torch.ones_like(old_BT), now, batch.mask_BT, None, 0)
    old_values = None if before is None else Values(before, torch.zeros(1))
    lesson = Lesson(batch, Before(old_BT, None, old_values), Targets(rows_of(advantages), returns, 0.0), 0.0)
    rows = range(len(samples))
    minibatch = objective.minibatch(lesson, rows, logprobs_BT.detach())
    found = objective.shares(live, rows, lesson, minibatch).shares
    found.total.backward()
    assert logprobs_BT.grad is not None
    return found, logprobs_BT.grad


@pytest.mark.parametrize(
    ("ratio", "advantage", "dual", "loss", "is_live"),
    [
        (1.29, 1.0, None, -1.28, False),
        (0.5, -1.0, None, 0.8, False),
        (5.0, -1.0, None, 5.0, True),
        (5.0, -1.0, 3.0, 3.0, False),
    ],
)
def test_known_answers_of_the_clipped_surrogate(
    ratio: float, advantage: float, dual: float | None, loss: float, is_live: bool
) -> None:
    found, gradient = shares([[ratio]], [[advantage]], algorithm={"clip_dual": dual})
    assert float(found.policy.detach()) == pytest.approx(loss)
    assert (float(gradient) != 0) == is_live


@pytest.mark.parametrize(
    ("aggregation", "groups", "expected"),
    [
        ("sequence", None, 0.0),
        ("token", None, -1 / 3),
        ("constant", None, -0.125),
        ("prompt", None, 0.0),
        ("prompt", [0, 0], -1 / 3),
    ],
)
def test_known_answers_of_the_aggregations(
    aggregation: str, groups: list[int] | None, expected: float
) -> None:
    """Two and four tokens with losses of +1 and −1, and a constant length of 8."""
    settings = {"algorithm": {"aggregation": aggregation}, "rollout": {"tokens_per_turn": 8}}
    found, gradient = shares([[1.0] * 2, [1.0] * 4], [[-1.0] * 2, [1.0] * 4], groups=groups, **settings)
    assert float(found.policy.detach()) == pytest.approx(expected, abs=1e-7)
    assert (gradient[0, 2:] == 0).all(), "masked positions, where the inputs are NaN"


def test_the_constant_length_is_by_default_the_limit_of_a_turn() -> None:
    settings = {"algorithm": {"aggregation": "constant"}, "rollout": {"tokens_per_turn": 16}}
    found, _ = shares([[1.0] * 4], [[1.0] * 4], **settings)
    assert float(found.policy.detach()) == pytest.approx(-4 / 16)


@pytest.mark.parametrize(
    ("loss", "kept", "cut"), [("gspo", 1.0003, 1.001), ("cispo", 4.9, 5.1), ("clip", 1.27, 1.29)]
)
def test_a_loss_has_its_own_bounds_unless_the_recipe_gives_others(loss: str, kept: float, cut: float) -> None:
    def gradient(ratio: float, **algorithm: Any) -> float:
        return float(shares([[ratio]], [[1.0]], algorithm={"loss": loss, **algorithm})[1])

    assert gradient(kept) == pytest.approx(-kept, rel=1e-4)
    assert gradient(cut) == pytest.approx(-5.0 if loss == "cispo" else 0.0)
    assert gradient(cut, clip_high=9.0) == pytest.approx(-cut, rel=1e-4)


def test_tokens_outside_the_ratio_bounds_leave_numerator_and_denominator() -> None:
    algorithm = {"min_ratio": 0.25, "max_ratio": 4.0, "clip_low": 1.0, "clip_high": 9.0}
    found, gradient = shares([[1.0, 5.0, 0.2, 2.0]], [[1.0] * 4], algorithm=algorithm)
    assert float(found.policy.detach()) == pytest.approx(-(1 + 2) / 2)
    assert (gradient != 0).tolist() == [[True, False, False, True]]


def test_the_entropy_bonus_is_subtracted_from_the_loss() -> None:
    found, _ = shares([[1.0, 1.0], [1.0]], [[0.0] * 2, [0.0]], algorithm={"entropy_bonus": 0.3})
    assert float(found.entropy.detach()) == pytest.approx(-0.3)  # every entropy is 1 here
    assert float(found.policy.detach()) == 0.0


@pytest.mark.parametrize(
    ("max_change", "expected"), [(None, 0.5 * (0.09 + 1.0) / 2), (0.1, 0.5 * (0.36 + 1.21) / 2)]
)
def test_the_value_loss_is_half_the_mean_square_and_may_be_clipped(
    max_change: float | None, expected: float
) -> None:
    values = ([0.3, 1.2], [0.7, 1.0], [1.0, 0.0])
    settings = {"algorithm": {"advantage": "gae"}, "value": {"max_change": max_change}}
    found, _ = shares([[1.0, 1.0]], [[0.0, 0.0]], values=values, **settings)
    assert float(found.value.detach()) == pytest.approx(expected)
