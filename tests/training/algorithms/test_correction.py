"""The mismatch between sampler and trainer: weights, masks and the base of the ratio."""

import math

import pytest
import torch

from turnwise.training.algorithms.correction import CORRECTIONS, Correction, CorrectionLimits, within

RATIOS = [[1.5, 4.0, 0.25, 9.0], [1.1, 1.1, 1.0, 1.0]]
MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])
every_correction = pytest.mark.parametrize("name", CORRECTIONS)


def correct(name: str, limits: CorrectionLimits | None = None, fill: float = 9.0) -> Correction:
    sampler = torch.full((2, 4), -3.0, dtype=torch.float64)
    old = sampler + torch.tensor(RATIOS, dtype=torch.float64).log()
    old[0, 3] = fill
    return CORRECTIONS[name](sampler, old.requires_grad_(), MASK, limits or CorrectionLimits())


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("decoupled", [[1.5, 2.0, 0.25, 0], [1.1, 1.1, 1, 1]]),
        ("sequence", [[1.5, 1.5, 1.5, 0], [1.21] * 4]),
        ("bypass", [[1, 1, 1, 0], [1] * 4]),
        ("mask", [[1, 0, 0, 0], [1] * 4]),
        ("mask_sequence", [[1, 1, 1, 0], [1] * 4]),
        ("none", [[1, 1, 1, 0], [1] * 4]),
    ],
)
def test_weights_masks_and_base_match_hand_worked_numbers(name: str, weights: list[list[float]]) -> None:
    found = correct(name)
    assert found.weights_BT.tolist() == [pytest.approx(row) for row in weights]
    kept = [[True, False, False, False], [True] * 4] if name == "mask" else MASK.bool().tolist()
    assert found.mask_BT.tolist() == kept, "a dropped token is not counted either"
    base = [-3.0] * 4 if name == "bypass" else [-3 + math.log(ratio) for ratio in RATIOS[1]]
    assert found.base_logprobs_BT[1].tolist() == pytest.approx(base)
    assert not found.weights_BT.requires_grad
    assert not found.base_logprobs_BT.requires_grad


def test_mask_sequence_drops_whole_sequences_by_their_geometric_mean() -> None:
    # row 0: (1.5 · 4 · .25)^(1/3) = 1.145; row 1: 1.21^(1/4) = 1.049
    found = correct("mask_sequence", CorrectionLimits(low=0.9, high=1.1)).mask_BT.tolist()
    assert found == [[False] * 4, [True] * 4]


def test_a_sequence_weight_is_capped() -> None:
    found = correct("sequence", CorrectionLimits(cap=1.3)).weights_BT[:, 0].tolist()
    assert found == pytest.approx([1.3, 1.21])


@every_correction
def test_masked_positions_have_no_effect(name: str) -> None:
    found, calm = correct(name, fill=math.nan), correct(name, fill=-3.0)
    assert torch.equal(found.weights_BT, calm.weights_BT)
    assert torch.equal(found.mask_BT, calm.mask_BT)


@every_correction
def test_equal_distributions_need_no_correction_and_distant_ones_do_not_overflow(name: str) -> None:
    logprobs, far = torch.tensor([[-0.1, -300.0]]), torch.tensor([[-300.0, -0.1]])
    found = CORRECTIONS[name](logprobs, logprobs.clone(), torch.ones(1, 2), CorrectionLimits())
    assert found.weights_BT.tolist() == [[1.0, 1.0]]
    assert found.mask_BT.all()
    assert torch.equal(found.base_logprobs_BT, logprobs)
    assert CORRECTIONS[name](far, logprobs, torch.ones(1, 2), CorrectionLimits()).weights_BT.isfinite().all()


def test_within_keeps_both_bounds_and_drops_ratios_outside_and_nan() -> None:
    ratio = torch.tensor([[0.24, 0.25, 1.0, 4.0, 4.1, math.nan, 1.0]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 0]])
    assert within(ratio, mask).int().tolist() == [[0, 1, 1, 1, 0, 0, 0]]
    assert within(ratio, mask, low=1.0, high=1.0).int().tolist() == [[0, 0, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize("bad", [{"cap": 0.0}, {"low": 1.2}, {"high": 0.9}, {"low": -1.0}], ids=str)
def test_invalid_limits_are_rejected(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="need cap"):
        CorrectionLimits(**bad)
