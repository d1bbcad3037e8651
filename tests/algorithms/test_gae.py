"""GAE against known answers; observation tokens and padding have no effect, whitening only its own."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turnwise.algorithms.gae import explained_variance, gae, moments, whiten

R, V = [0.0, 0.0, 1.0], [0.5, 0.6, 0.7]
TERMINAL = [0.446829, 0.375150, 0.300000]
TRUNCATED = [1.147384, 1.120026, 1.092000]


def row(values: list[float]) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


def test_terminal_known_answer() -> None:
    found = gae(row(R), row(V), row([1, 1, 1]), gamma=0.99, lam=0.95)
    assert found.advantages_BT[0].tolist() == pytest.approx(TERMINAL, abs=1e-6)
    assert found.returns_BT[0].tolist() == pytest.approx([0.5 + 0.446829, 0.6 + 0.375150, 1.0], abs=1e-6)


def test_truncated_known_answer() -> None:
    found = gae(
        row(R),
        row(V),
        row([1, 1, 1]),
        gamma=0.99,
        lam=0.95,
        is_truncated_B=torch.tensor([True]),
        bootstrap_B=torch.tensor([0.8], dtype=torch.float64),
    )
    assert found.advantages_BT[0].tolist() == pytest.approx(TRUNCATED, abs=1e-6)


def test_without_discount_the_advantage_is_outcome_minus_value() -> None:
    found = gae(row(R), row(V), row([1, 1, 1]), gamma=1.0, lam=1.0)
    assert found.advantages_BT[0].tolist() == pytest.approx([0.5, 0.4, 0.3], abs=1e-12)
    assert found.returns_BT[0].tolist() == pytest.approx([1, 1, 1], abs=1e-12)


@given(gaps=st.lists(st.integers(0, 3), min_size=4, max_size=4), is_truncated=st.booleans())
@settings(max_examples=40, deadline=None)
def test_observation_tokens_change_nothing(gaps: list[int], is_truncated: bool) -> None:
    mask: list[float] = [0] * gaps[0]
    for gap in gaps[1:]:
        mask += [1] + [0] * gap
    own = [place for place, kept in enumerate(mask) if kept]
    rewards, values = row([math.nan] * len(mask)), row([math.nan] * len(mask))
    rewards[0, own], values[0, own] = row(R)[0], row(V)[0]
    found = gae(
        rewards,
        values,
        row(mask),
        gamma=0.99,
        lam=0.95,
        is_truncated_B=torch.tensor([is_truncated]),
        bootstrap_B=torch.tensor([0.8], dtype=torch.float64),
    )
    expected = TRUNCATED if is_truncated else TERMINAL
    assert found.advantages_BT[0, own].tolist() == pytest.approx(expected, abs=1e-6)
    assert found.returns_BT[0, own].tolist() == pytest.approx(
        [a + v for a, v in zip(expected, V, strict=True)], abs=1e-6
    )
    elsewhere = [place for place, kept in enumerate(mask) if not kept]
    assert found.advantages_BT[0, elsewhere].tolist() == [0.0] * len(elsewhere)
    assert found.returns_BT[0, elsewhere].tolist() == [0.0] * len(elsewhere)


def test_rows_of_a_batch_are_independent() -> None:
    rewards = torch.tensor([R, [0, 0, 0], [0, 2, 0]], dtype=torch.float64)
    values = torch.tensor([V, [9, 9, 9], [1, 1, 0]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1], [1, 1, 1], [1, 1, 0]])
    truncated = torch.tensor([False, True, False])
    bootstrap = torch.tensor([5.0, 9.0, 5.0], dtype=torch.float64)
    found = gae(
        rewards, values, mask, gamma=0.99, lam=0.95, is_truncated_B=truncated, bootstrap_B=bootstrap
    ).advantages_BT
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
    found = gae(
        row([0, 0, 0]),
        row([0, 0, 0]),
        row([1, 1, 0]),
        gamma=0.9,
        lam=1.0,
        turn_BT=torch.tensor([[0, 1, 1]]),
        is_truncated_B=torch.tensor([True]),
        bootstrap_B=torch.tensor([2.0], dtype=torch.float64),
    )
    assert found.advantages_BT[0].tolist() == pytest.approx([1.8, 2.0, 0])


def test_a_token_discount_of_099_erases_the_outcome_of_500_tokens() -> None:
    zeros = torch.zeros(1, 501, dtype=torch.float64)
    rewards = zeros.clone()
    rewards[0, 500] = 1
    first = gae(rewards, zeros, torch.ones(1, 501), gamma=0.99, lam=1.0).advantages_BT[0, 0].item()
    assert first == pytest.approx(0.0066, abs=1e-4)


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
    flat = row([0.1, 0.1, 0.1, math.nan])
    mask = row([1, 1, 1, 0])
    assert whiten(flat, mask, moments(flat, mask))[0].tolist() == [0.0] * 4
    assert whiten(row([5.0]), row([1]), moments(row([5.0]), row([1])))[0].tolist() == [0.0]
    everything = row([1, 1, 1, 1])
    assert whiten(flat, everything, moments(flat, everything)).isnan().all()


def test_returns_are_not_whitened() -> None:
    found = gae(row(R), row(V), row([1, 1, 1]), gamma=0.99, lam=0.95)
    before = found.returns_BT.clone()
    white = whiten(found.advantages_BT, row([1, 1, 1]), moments(found.advantages_BT, row([1, 1, 1])))
    assert not torch.allclose(white, found.advantages_BT)
    assert torch.equal(found.returns_BT, before)


def test_explained_variance_known_answers() -> None:
    returns, mask = row([0, 1, 2, 50]), row([1, 1, 1, 0])
    assert explained_variance(returns, returns, mask) == 1.0
    assert explained_variance(row([1, 1, 1, 0]), returns, mask) == pytest.approx(0.0)
    assert explained_variance(row([0, 0.5, 1, 9]), returns, mask) == pytest.approx(0.75)
    assert explained_variance(row([2, 1, 0, 0]), returns, mask) == pytest.approx(-3.0)
    assert explained_variance(row([0, 1]), row([3, 3]), row([1, 1])) == 0.0
