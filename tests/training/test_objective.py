"""Known answers through the whole objective: ratios, bounds, aggregations and values worked out by hand."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.updates import recipe_of, sample_of
from turnwise.training.model.policy import Scores
from turnwise.training.packing.batch import batch_of
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
    values: Values | None = None,
    returns: Sequence[Sequence[float]] = (),
    live_values: Sequence[Sequence[float]] = (),
    groups: Sequence[int] | None = None,
    **settings: Any,
) -> tuple[Shares, Tensor]:
    """The shares, and the gradient of their sum in the log-probs; rubbish stands wherever the mask is 0."""
    objective = Objective(recipe_of(**settings))
    samples = [
        sample_of([([1, 2], [3] * len(row))], group=group)
        for row, group in zip(ratios, groups or range(len(ratios)), strict=True)
    ]
    batch = batch_of(samples)
    old_BT = torch.full(batch.mask_BT.shape, OLD)
    batch.sampler_logprobs_BT.copy_(old_BT)
    logprobs_BT = (OLD + rows_of(ratios).log()).requires_grad_()
    live = Scores(
        logprobs_BT,
        torch.ones_like(old_BT),
        rows_of(live_values) if live_values else None,
        batch.mask_BT,
        None,
        0,
    )
    targets = Targets(rows_of(advantages), rows_of(returns) if returns else None, 0.0)
    lesson = Lesson(batch, Before(old_BT, None, values), targets, 0.0)
    rows = range(len(samples))
    found = objective.shares(
        live, rows, lesson, objective.minibatch(lesson, rows, logprobs_BT.detach())
    ).shares
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
        (2.9, -1.0, 3.0, 2.9, True),
        (0.5, 1.0, None, -0.5, True),
        (1.27, 1.0, None, -1.27, True),
    ],
)
def test_the_clipped_surrogates_known_answers(
    ratio: float, advantage: float, dual: float | None, loss: float, is_live: bool
) -> None:
    found, gradient = shares([[ratio]], [[advantage]], algorithm={"clip_dual": dual})
    assert float(found.policy.detach()) == pytest.approx(loss)
    assert (float(gradient) != 0) == is_live


@pytest.mark.parametrize(
    ("aggregation", "expected"), [("sequence", 0.0), ("token", -1 / 3), ("constant", -0.125), ("prompt", 0.0)]
)
def test_the_aggregations_known_answers(aggregation: str, expected: float) -> None:
    """Two and four tokens with losses of +1 and −1, the length held constant at 8; a prompt each."""
    settings = {"algorithm": {"aggregation": aggregation}, "rollout": {"tokens_per_turn": 8}}
    found, gradient = shares([[1.0] * 2, [1.0] * 4], [[-1.0] * 2, [1.0] * 4], **settings)
    assert float(found.policy.detach()) == pytest.approx(expected, abs=1e-7)
    assert (gradient[0, 2:] == 0).all()  # where the mask is 0, though NaN stands there


def test_one_prompts_members_share_its_weight() -> None:
    settings = {"algorithm": {"aggregation": "prompt"}}
    found, _ = shares([[1.0] * 2, [1.0] * 4], [[-1.0] * 2, [1.0] * 4], groups=[0, 0], **settings)
    assert float(found.policy.detach()) == pytest.approx(-1 / 3)


def test_the_constant_length_is_a_turns_limit_where_none_is_given() -> None:
    settings = {"algorithm": {"aggregation": "constant"}, "rollout": {"tokens_per_turn": 16}}
    found, _ = shares([[1.0] * 4], [[1.0] * 4], **settings)
    assert float(found.policy.detach()) == pytest.approx(-4 / 16)


def test_a_losss_own_bounds_hold_unless_the_recipe_gives_others() -> None:
    for loss, kept, cut in (("gspo", 1.0003, 1.001), ("cispo", 4.9, 5.1), ("clip", 1.27, 1.29)):
        _, inside = shares([[kept]], [[1.0]], algorithm={"loss": loss})
        assert float(inside) == pytest.approx(-kept, rel=1e-4)
        _, outside = shares([[cut]], [[1.0]], algorithm={"loss": loss})
        assert float(outside) == pytest.approx(-5.0 if loss == "cispo" else 0.0)
        _, wide = shares([[cut]], [[1.0]], algorithm={"loss": loss, "clip_high": 9.0})
        assert float(wide) == pytest.approx(-cut, rel=1e-4)


def test_ratio_bounds_leave_numerator_and_denominator() -> None:
    settings = {"algorithm": {"min_ratio": 0.25, "max_ratio": 4.0, "clip_low": 1.0, "clip_high": 9.0}}
    found, gradient = shares([[1.0, 5.0, 0.2, 2.0]], [[1.0] * 4], **settings)
    assert float(found.policy.detach()) == pytest.approx(-(1 + 2) / 2)
    assert (gradient != 0).tolist() == [[True, False, False, True]]


def test_the_entropy_bonus_is_taken_off_the_loss() -> None:
    found, _ = shares([[1.0, 1.0], [1.0]], [[0.0] * 2, [0.0]], algorithm={"entropy_bonus": 0.3})
    assert float(found.entropy.detach()) == pytest.approx(-0.3)  # every entropy is 1 here
    assert float(found.policy.detach()) == 0.0


@pytest.mark.parametrize(
    ("max_change", "expected"), [(None, 0.5 * (0.09 + 1.0) / 2), (0.1, 0.5 * (0.36 + 1.21) / 2)]
)
def test_the_value_loss_is_half_the_mean_square_and_may_be_kept_near(
    max_change: float | None, expected: float
) -> None:
    """Values 0.7 and 1 moved from 0.3 and 1.2; returns 1 and 0."""
    values = Values(torch.tensor([[0.3, 1.2]]), torch.zeros(1))
    found, _ = shares(
        [[1.0, 1.0]],
        [[0.0, 0.0]],
        values=values,
        returns=[[1.0, 0.0]],
        live_values=[[0.7, 1.0]],
        algorithm={"advantage": "gae"},
        value={"max_change": max_change},
    )
    assert float(found.value.detach()) == pytest.approx(expected)
