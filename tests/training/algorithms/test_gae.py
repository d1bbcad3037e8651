"""GAE, whitening and explained variance against known answers; observation tokens have no effect."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turnwise.training.algorithms.gae import explained_variance, gae, moments, whiten

R, V = [0.0, 0.0, 1.0], [0.5, 0.6, 0.7]
TERMINAL = [0.446829, 0.375150, 0.300000]
TRUNCATED = [1.147384, 1.120026, 1.092000]
DISCOUNTED = {"gamma": 0.99, "lam": 0.95}


def row(values: list[float]) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def cut_off(bootstrap: float, is_truncated: bool = True) -> dict[str, Tensor]:
    """The options for an episode that ended at a limit, with the value of its last state."""
    return {"is_truncated_B": torch.tensor([is_truncated]), "bootstrap_B": row([bootstrap])[0]}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (DISCOUNTED, TERMINAL),
        ({**DISCOUNTED, **cut_off(0.8, is_truncated=False)}, TERMINAL),
        ({**DISCOUNTED, **cut_off(0.8)}, TRUNCATED),
        ({"gamma": 1.0, "lam": 1.0}, [0.5, 0.4, 0.3]),
    ],
    ids=["terminal", "terminal with a bootstrap value", "truncated", "no discount"],
)
def test_known_answers(options: dict[str, Any], expected: list[float]) -> None:
    found = gae(row(R), row(V), row([1, 1, 1]), **options)
    assert found.advantages_BT[0].tolist() == pytest.approx(expected, abs=1e-6)
    returns = [advantage + value for advantage, value in zip(expected, V, strict=True)]
    assert found.returns_BT[0].tolist() == pytest.approx(returns, abs=1e-6)


@given(gaps=st.lists(st.integers(0, 3), min_size=4, max_size=4), is_truncated=st.booleans())
@settings(max_examples=25, deadline=None)
def test_observation_tokens_change_nothing(gaps: list[int], is_truncated: bool) -> None:
    mask: list[float] = [0] * gaps[0]
    for gap in gaps[1:]:
        mask += [1] + [0] * gap
    own = row(mask)[0].bool()
    rewards, values = row([math.nan] * len(mask)), row([math.nan] * len(mask))
    rewards[0, own], values[0, own] = row(R)[0], row(V)[0]
    found = gae(rewards, values, row(mask), **DISCOUNTED, **cut_off(0.8, is_truncated))
    plain = gae(row(R), row(V), row([1, 1, 1]), **DISCOUNTED, **cut_off(0.8, is_truncated))
    for with_gaps, without in (
        (found.advantages_BT, plain.advantages_BT),
        (found.returns_BT, plain.returns_BT),
    ):
        assert torch.equal(with_gaps[:, own], without)
        assert (with_gaps[:, ~own] == 0).all()


def test_rows_of_a_batch_are_independent() -> None:
    rewards = torch.tensor([R, [0, 0, 0], [0, 2, 0]], dtype=torch.float64)
    values = torch.tensor([V, [9, 9, 9], [1, 1, 0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 1, 0]])
    truncated = torch.tensor([False, True, False])
    bootstrap = torch.tensor([5.0, 9.0, 5.0], dtype=torch.float64)
    options = {**DISCOUNTED, "is_truncated_B": truncated, "bootstrap_B": bootstrap}
    found = gae(rewards, values, mask, **options).advantages_BT
    assert found[0].tolist() == pytest.approx(TERMINAL, abs=1e-6)
    assert found[2].tolist() == pytest.approx([-0.01 + 0.99 * 0.95 * 1, 1, 0], abs=1e-12)
    delta = 0.99 * 9 - 9
    assert found[1, 1].item() == pytest.approx(delta * (1 + 0.99 * 0.95), abs=1e-12)


def test_gamma_per_turn_applies_once_per_turn_and_not_across_forced_tokens() -> None:
    mask = row([1, 0, 1, 0, 0, 1, 1])  # token 1 is forced inside turn 0; 3 and 4 are tool output
    turns = torch.tensor([[0, 0, 0, 7, 7, 1, 1]])
    rewards, values = row([0] * 6 + [1]), row([0.0] * 7)
    found = gae(rewards, values, mask, gamma=0.9, lam=1.0, turn_BT=turns).advantages_BT[0].tolist()
    assert found == pytest.approx([0.9, 0, 0.9, 0, 0, 1, 1])
    by_token = gae(rewards, values, mask, gamma=0.9, lam=1.0).advantages_BT[0].tolist()
    assert by_token == pytest.approx([0.9**3, 0, 0.9**2, 0, 0, 0.9, 1])


def test_with_turns_the_bootstrap_belongs_to_the_truncated_turn() -> None:
    options = {"gamma": 0.9, "lam": 1.0, "turn_BT": torch.tensor([[0, 1, 1]]), **cut_off(2.0)}
    found = gae(row([0, 0, 0]), row([0, 0, 0]), row([1, 1, 0]), **options)
    assert found.advantages_BT[0].tolist() == pytest.approx([1.8, 2.0, 0])


# --- whitening ---------------------------------------------------------------------------------------------


def test_whitening_uses_unmasked_entries_of_the_whole_batch() -> None:
    values, mask = row([1, 2, 100, 6]), row([1, 1, 0, 1])
    whole = moments(values, mask)
    assert (whole.mean, whole.variance) == (3.0, 7.0)
    white = whiten(values, mask, whole)
    assert white[0].tolist() == pytest.approx([-2 / 7**0.5, -1 / 7**0.5, 0, 3 / 7**0.5])
    parts = moments(values[:, :2], mask[:, :2]) + moments(values[:, 2:], mask[:, 2:])
    assert parts == whole
    assert torch.equal(whiten(values[:, :2], mask[:, :2], parts), white[:, :2])


def test_whitening_maps_constant_values_to_zeros_and_keeps_nan() -> None:
    def whitened(values: Tensor, mask: Tensor) -> Tensor:
        return whiten(values, mask, moments(values, mask))

    flat = row([0.1, 0.1, 0.1, math.nan])
    assert whitened(flat, row([1, 1, 1, 0])).tolist() == [[0.0] * 4]
    assert whitened(row([5.0]), row([1])).tolist() == [[0.0]]
    assert whitened(flat, row([1, 1, 1, 1])).isnan().all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0, 1, 2, 0], 1.0), ([1, 1, 1, 0], 0.0), ([0, 0.5, 1, 9], 0.75), ([2, 1, 0, 0], -3.0)],
)
def test_explained_variance_known_answers(values: list[float], expected: float) -> None:
    assert explained_variance(row(values), row([0, 1, 2, 50]), row([1, 1, 1, 0])) == pytest.approx(expected)


def test_constant_returns_have_an_explained_variance_of_zero() -> None:
    assert explained_variance(row([0, 1]), row([3, 3]), row([1, 1])) == 0.0
