"""Aggregations against known answers; micro-batches add up to the whole batch exactly."""

import math
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.training.algorithms.aggregate import AGGREGATIONS, count

LOSSES = torch.tensor([[1, 1, math.nan, math.nan], [-1, -1, -1, -1]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])


@pytest.mark.parametrize(
    ("name", "expected"), [("sequence", 0.0), ("token", -1 / 3), ("constant", -0.125), ("prompt", -1 / 3)]
)
def test_known_answers_of_two_sequences_with_and_without_padding(name: str, expected: float) -> None:
    whole = count([2, 4], ["a", "a"], max_tokens=8)
    found = AGGREGATIONS[name](LOSSES, MASK, whole)
    assert found.item() == pytest.approx(expected, abs=1e-12)
    wide_losses = torch.cat([torch.full((2, 3), math.inf, dtype=torch.float64), LOSSES], dim=1)
    wide_mask = torch.cat([torch.zeros(2, 3), MASK], dim=1)
    assert torch.equal(AGGREGATIONS[name](wide_losses, wide_mask, whole), found)


def test_prompt_gives_every_prompt_the_same_weight_at_any_length() -> None:
    # a: losses 1 (2 tokens) and −1 (4) → −1/3; b: 5 (1 token) → 5
    losses = torch.cat([LOSSES, torch.tensor([[5, 0, 0, 0]], dtype=torch.float64)])
    mask = torch.cat([MASK, torch.tensor([[1, 0, 0, 0]])])
    whole = count([2, 4, 1], ["a", "a", "b"], max_tokens=8)
    assert AGGREGATIONS["prompt"](losses, mask, whole).item() == pytest.approx((-1 / 3 + 5) / 2)


def test_rows_and_prompts_without_learnable_tokens_are_not_counted() -> None:
    whole = count([2, 0, 3, 0], ["a", "a", "b", "c"], max_tokens=10)
    assert (whole.num_tokens, whole.num_sequences, whole.num_prompts) == (5, 2, 2)
    assert whole.num_tokens_of_prompt_B == (2, 2, 3, 0)
    assert whole.of_rows([2, 0]).num_tokens_of_prompt_B == (3, 2)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_a_batch_without_learnable_tokens_has_a_loss_of_zero(name: str) -> None:
    losses = torch.full((2, 3), math.nan, requires_grad=True)
    loss = AGGREGATIONS[name](losses, torch.zeros(2, 3), count([0, 0], ["a", "b"], max_tokens=4))
    (gradient,) = torch.autograd.grad(loss, losses)
    assert loss.item() == 0.0
    assert (gradient == 0).all()


@pytest.mark.parametrize("name", AGGREGATIONS)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=2, max_size=7),
    cut=st.integers(1, 6),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=25, deadline=None)
def test_micro_batches_in_any_order_add_up_to_the_whole(
    name: str, lengths: list[int], cut: int, order: random.Random
) -> None:
    rows = order.sample(range(len(lengths)), len(lengths))
    generator = torch.Generator().manual_seed(sum(lengths))
    losses = torch.randn(len(lengths), 5, dtype=torch.float64, generator=generator).requires_grad_()
    mask = torch.arange(5)[None] < torch.tensor(lengths)[:, None]
    whole = count(lengths, [number // 2 for number in range(len(lengths))], max_tokens=6)
    aggregate = AGGREGATIONS[name]

    loss = aggregate(losses, mask, whole)
    parts = [rows[start : start + cut] for start in range(0, len(rows), cut)]
    summed = torch.stack([aggregate(losses[part], mask[part], whole.of_rows(part)) for part in parts]).sum()

    torch.testing.assert_close(summed, loss, rtol=0, atol=1e-12)
    (of_whole,) = torch.autograd.grad(loss, losses)
    (of_parts,) = torch.autograd.grad(summed, losses)
    torch.testing.assert_close(of_parts, of_whole, rtol=0, atol=1e-12)
    assert (of_whole[~mask] == 0).all()
