"""The moving average of the reference against known answers."""

import pytest
import torch

from turnwise.training.algorithms.ema import ema


def test_from_zero_towards_one_after_1_5_and_100_updates() -> None:
    reference, current = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    seen = {}
    for update in range(1, 101):
        reference = ema(reference, current, decay=0.99)
        seen[update] = reference.item()
    assert [seen[1], seen[5], seen[100]] == pytest.approx([0.01, 0.0490100, 0.6339677], abs=1e-7)


def test_a_decay_of_zero_copies_and_of_one_keeps_the_reference_in_its_dtype() -> None:
    reference, current = torch.tensor([1.0, 2.0], dtype=torch.bfloat16), torch.tensor([5.0, -3.0])
    assert torch.equal(ema(reference, current, decay=0.0), current.bfloat16())
    assert torch.equal(ema(reference, current, decay=1.0), reference)
    assert reference.tolist() == [1.0, 2.0]
