"""Advantages per token against hand-worked numbers: groups, turns, truncation, KL in the reward."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.updates import sample_of
from turnwise.config import AlgorithmConfig
from turnwise.training.packing.batch import batch_of, minibatches
from turnwise.training.packing.samples import Sample
from turnwise.training.update.targets import Before, Targets, Values, estimate

VALUES = Values(torch.tensor([[0.5, 0.6, 0.7]]), torch.tensor([0.8]))
ZERO = Values(torch.zeros(1, 3), torch.zeros(1))


def member(group: int, reward: float, lengths: Sequence[int] = (2, 1), **fields: Any) -> Sample:
    """Turns of these numbers of own tokens, with two given tokens before every turn."""
    return sample_of([([1, 2], [3] * length) for length in lengths], group=group, reward=reward, **fields)


def targets(
    *samples: Sample, before: Before | None = None, coefficient: float = 0.0, **options: Any
) -> Targets:
    config = AlgorithmConfig.model_validate(options)
    return estimate(batch_of(samples), before or Before(None, None, None), config, coefficient)


def unwhitened(sample: Sample, values: Values = VALUES, **options: Any) -> Tensor:
    """The advantages of GAE before whitening: the returns minus the values."""
    found = targets(sample, before=Before(None, None, values), advantage="gae", **options)
    assert found.returns_BT is not None
    return found.returns_BT - values.values_BT


def assert_rows(found: Tensor, expected: Sequence[Sequence[float]]) -> None:
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-6)


def test_a_batch_holds_only_own_tokens_from_the_left() -> None:
    sample = member(0, 1.0)
    given = batch_of([member(0, 0.0, (1,)), sample])
    assert given.mask_BT.tolist() == [[True, False, False], [True, True, True]]
    assert given.turn_BT.tolist() == [[0, -1, -1], [0, 0, 1]]
    own = [value for value, flag in zip(sample.logprobs, sample.loss_mask, strict=True) if flag]
    assert_rows(given.sampler_logprobs_BT[1:], [own])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mean", [0.75, -0.25, -0.25, -0.25]),
        ("grpo", [1.5, -0.5, -0.5, -0.5]),
        ("rloo", [1.0, -1 / 3, -1 / 3, -1 / 3]),
        ("maxrl", [3.0, -1.0, -1.0, -1.0]),
    ],
)
def test_the_known_answers_reach_every_token_of_their_member(name: str, expected: list[float]) -> None:
    found = targets(*(member(0, reward) for reward in (1.0, 0, 0, 0)), member(1, 0.5, (1,)), advantage=name)
    # a group of one teaches nothing, and padding is 0
    assert_rows(found.advantages_BT, [*([value] * 3 for value in expected), [0.0] * 3])
    assert found.zero_variance_fraction == 0.5
    assert found.returns_BT is None


def test_members_are_compared_within_their_group_in_any_order() -> None:
    found = targets(member(7, 1.0), member(3, 5.0), member(7, 0.0), member(3, 9.0))
    assert_rows(found.advantages_BT[:, :1], [[0.5], [-2.0], [-0.5], [2.0]])


def test_turns_are_compared_with_the_same_turn_of_other_members_and_may_be_discounted() -> None:
    # rewards [0, 1] and [0]: returns [1, 1] and [0], baselines [.5, 1], advantages [.5, 0] and [−.5]
    ragged = [member(0, 1.0), member(0, 0.0, (1,)), member(1, 3.0, (1,))]
    found = targets(*ragged, advantage="turn")
    assert_rows(found.advantages_BT, [[0.5, 0.5, 0], [-0.5, 0, 0], [0, 0, 0]])
    found = targets(member(0, 1.0, (1, 1)), member(0, 0.0, (1, 1)), advantage="turn", gamma=0.5)
    assert_rows(found.advantages_BT, [[0.25, 0.5], [-0.25, -0.5]])


@pytest.mark.parametrize("lengths", [(3,), (2, 1), (1, 1, 1)], ids=str)
def test_gae_has_its_known_answers_whatever_tool_output_is_between_turns(lengths: tuple[int, ...]) -> None:
    options = {"gamma": 0.99, "lam": 0.95}
    finished, cut = member(0, 1.0, lengths), member(0, 1.0, lengths, is_truncated=True)
    assert_rows(unwhitened(finished, **options), [[0.446829, 0.375150, 0.300000]])
    assert_rows(unwhitened(cut, **options), [[1.147384, 1.120026, 1.092000]])
    assert_rows(unwhitened(finished, gamma=1.0, lam=1.0), [[0.5, 0.4, 0.3]])


def test_gae_may_discount_per_turn() -> None:
    found = unwhitened(member(0, 1.0), gamma=0.5, gamma_unit="turn", lam=1.0)
    assert_rows(found, [[0.5 - 0.5, 0.5 - 0.6, 1 - 0.7]])


def test_the_reward_of_a_turn_is_paid_on_its_last_own_token_or_an_earlier_one() -> None:
    sample = member(0, 6.0, turn_rewards=(2.0, 4.0))
    assert_rows(unwhitened(sample, ZERO, lam=0.0), [[0.0, 2.0, 4.0]])
    forced = dataclasses.replace(sample, loss_mask=(*sample.loss_mask[:-1], 0))
    two = Values(torch.zeros(1, 2), torch.zeros(1))
    assert_rows(unwhitened(forced, two, lam=0.0), [[0.0, 6.0]])


def test_gae_is_whitened_over_the_whole_batch_and_returns_are_not() -> None:
    values = Values(torch.tensor([[0.5, 0.6, 0.7], [0.2, 9.0, 9.0]]), torch.zeros(2))
    before = Before(None, None, values)
    found = targets(member(0, 1.0, (3,)), member(1, 0.0, (1,)), before=before, advantage="gae", lam=1.0)
    plain = torch.tensor([0.5, 0.4, 0.3, -0.2])
    white = (plain - plain.mean()) / plain.std()
    assert_rows(found.advantages_BT, [white[:3].tolist(), [float(white[3]), 0.0, 0.0]])
    assert found.returns_BT is not None
    assert_rows(found.returns_BT, [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])


def test_kl_in_the_reward_reaches_members_turns_and_tokens() -> None:
    old = torch.tensor([[-1.0, -1.0, -1.0], [-2.0, -2.0, -2.0]])
    ref = torch.tensor([[-1.5, -1.0, -2.0], [-2.0, -2.0, -2.0]])  # k1 of the first row: .5, 0, 1

    def paid(values: Values | None = None, **options: Any) -> Targets:
        before = Before(old, ref, values)
        kl = {"placement": "reward"}
        return targets(member(0, 1.0), member(0, 0.0), before=before, coefficient=0.1, kl=kl, **options)

    assert_rows(paid().advantages_BT[:, :1], [[0.425], [-0.425]])  # 1 − .15 against 0
    # the second turn pays .1 of it
    assert_rows(paid(advantage="turn").advantages_BT[:1], [[0.425, 0.425, 0.45]])
    tokens = paid(Values(torch.zeros(2, 3), torch.zeros(2)), advantage="gae", lam=0.0)
    assert tokens.returns_BT is not None
    assert_rows(tokens.returns_BT[:1], [[-0.05, 0.0, 0.9]])


@pytest.mark.parametrize("num_minibatches", [1, 2, 3, 5, 9])
def test_minibatches_hold_every_group_once_and_whole(num_minibatches: int) -> None:
    given = batch_of([member(group, 0.0, (1,)) for _ in range(2) for group in range(5)])
    parts = minibatches(given, num_minibatches, seed=0, step=3, epoch=0)
    assert len(parts) == min(num_minibatches, 5)
    assert sorted(row for part in parts for row in part) == list(range(10))
    for part in parts:
        assert all((row + 5) % 10 in part for row in part)  # a group is rows g and g + 5
    assert parts == minibatches(given, num_minibatches, seed=0, step=3, epoch=0)


def test_minibatches_differ_between_epochs_and_do_not_depend_on_the_order_of_samples() -> None:
    samples = [member(group, 0.0, (1,)) for group in range(8)]
    parts = [
        minibatches(batch_of(given), 4, seed=0, step=0, epoch=epoch)
        for given, epoch in ((samples, 0), (samples, 1), (samples[::-1], 0))
    ]
    assert parts[0] != parts[1]
    assert [[7 - row for row in part] for part in parts[2]] == parts[0]
