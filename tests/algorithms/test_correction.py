"""The mismatch between sampler and trainer: weights, masks and the base of the ratio."""

import math

import pytest
import torch

from turnwise.algorithms.correction import CORRECTIONS, Correction, CorrectionLimits, within

RATIOS = [[1.5, 4.0, 0.25, 9.0], [1.1, 1.1, 1.0, 1.0]]
MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])


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
def test_weights_match_hand_worked_numbers(name: str, weights: list[list[float]]) -> None:
    found = correct(name)
    assert [pytest.approx(row) for row in weights] == found.weights_BT.tolist()
    assert not found.weights_BT.requires_grad
    assert not found.base_logprobs_BT.requires_grad


def test_only_the_masking_corrections_drop_tokens_also_from_the_count() -> None:
    kept = {name: correct(name).mask_BT.tolist() for name in CORRECTIONS}
    whole = MASK.bool().tolist()
    assert kept.pop("mask") == [[True, False, False, False], [True] * 4]
    assert all(mask == whole for mask in kept.values())


def test_mask_sequence_drops_whole_sequences_by_their_geometric_mean() -> None:
    # row 0: (1.5 · 4 · .25)^(1/3) = 1.145; row 1: 1.21^(1/4) = 1.049
    found = correct("mask_sequence", CorrectionLimits(low=0.9, high=1.1)).mask_BT.tolist()
    assert found == [[False] * 4, [True] * 4]


def test_a_sequence_weight_is_capped() -> None:
    assert correct("sequence", CorrectionLimits(cap=1.3)).weights_BT[:, 0].tolist() == pytest.approx(
        [1.3, 1.21]
    )


def test_the_base_of_the_ratio_is_the_sampler_only_for_bypass() -> None:
    for name in CORRECTIONS:
        base = correct(name).base_logprobs_BT[1]
        expected = [-3.0] * 4 if name == "bypass" else [-3 + math.log(ratio) for ratio in RATIOS[1]]
        assert base.tolist() == pytest.approx(expected), name


@pytest.mark.parametrize("name", CORRECTIONS)
def test_masked_positions_have_no_effect(name: str) -> None:
    found, calm = correct(name, fill=math.nan), correct(name, fill=-3.0)
    assert torch.equal(found.weights_BT, calm.weights_BT)
    assert torch.equal(found.mask_BT, calm.mask_BT)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_equal_distributions_need_no_correction(name: str) -> None:
    logprobs = torch.tensor([[-1.0, -0.3]])
    found = CORRECTIONS[name](logprobs, logprobs.clone(), torch.ones(1, 2), CorrectionLimits())
    assert found.weights_BT.tolist() == [[1.0, 1.0]]
    assert found.mask_BT.all()
    assert torch.equal(found.base_logprobs_BT, logprobs)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_distributions_far_apart_do_not_overflow(name: str) -> None:
    sampler, old = torch.tensor([[-300.0, -0.1]]), torch.tensor([[-0.1, -300.0]])
    assert CORRECTIONS[name](sampler, old, torch.ones(1, 2), CorrectionLimits()).weights_BT.isfinite().all()


def test_within_keeps_both_bounds_and_drops_ratios_outside_and_nan() -> None:
    ratio = torch.tensor([[0.24, 0.25, 1.0, 4.0, 4.1, math.nan, 1.0]])
    mask = torch.tensor([[1, 1, 1, 1, 1, 1, 0]])
    assert within(ratio, mask).int().tolist() == [[0, 1, 1, 1, 0, 0, 0]]
    assert within(ratio, mask, low=1.0, high=1.0).int().tolist() == [[0, 0, 1, 0, 0, 0, 0]]


@pytest.mark.parametrize("bad", [{"cap": 0.0}, {"low": 1.2}, {"high": 0.9}, {"low": -1.0}])
def test_invalid_limits_are_rejected(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="need cap"):
        CorrectionLimits(**bad)
