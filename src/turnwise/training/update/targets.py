"""Advantages and returns by token, from a batch and the models' scores before the update."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.config import AlgorithmConfig
from turnwise.training.algorithms.advantages import ADVANTAGES, has_signal, turn
from turnwise.training.algorithms.gae import gae, moments, whiten
from turnwise.training.algorithms.kl import reward_penalty
from turnwise.training.packing.batch import Batch


@dataclass(frozen=True, slots=True)
class Values:
    """The value head's output before the update."""

    values_BT: Tensor
    bootstrap_B: Tensor
    """The value after the last own token; used only for truncated rows."""


@dataclass(frozen=True, slots=True)
class Before:
    """The models' scores of a batch before the update; None for scores that are not needed."""

    old_logprobs_BT: Tensor | None
    """None if the update is one optimizer step, whose own forward pass gives the same."""
    ref_logprobs_BT: Tensor | None
    values: Values | None


@dataclass(frozen=True, slots=True)
class Targets:
    """What the update learns from; all 0 where the mask is 0."""

    advantages_BT: Tensor
    returns_BT: Tensor | None
    """The value head's targets, from advantages before whitening; None without a value head."""
    zero_variance_fraction: float
    """The share of groups whose rewards are all equal."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """Everything an update learns from, fixed before its first optimizer step."""

    batch: Batch
    before: Before
    targets: Targets
    kl_coefficient: float


def estimate(batch: Batch, before: Before, config: AlgorithmConfig, kl_coefficient: float) -> Targets:
    """Return one advantage per token from rewards, less the KL penalty if it is placed in the reward."""
    penalty_BT = _penalty(batch, before, config, kl_coefficient)
    groups = batch.groups.values()
    num_flat = sum(not has_signal([batch.samples[row].reward for row in rows]) for rows in groups)
    flat_fraction = num_flat / max(len(groups), 1)
    if config.advantage == "gae":
        return _by_value(batch, before, config, _rewards_by_token(batch) + penalty_BT, flat_fraction)
    if config.advantage == "turn":
        advantages_BT = _by_turn(batch, penalty_BT, config.gamma)
    else:
        advantages_BT = _by_member(batch, penalty_BT, config.advantage)
    return Targets(advantages_BT, None, flat_fraction)


def _rewards_by_token(batch: Batch) -> Tensor:
    """Put each turn's reward on its last own token; if it has none, on the last one before the turn."""
    rewards_BT = torch.zeros_like(batch.sampler_logprobs_BT)
    for row, sample in enumerate(batch.samples):
        turn_T = batch.turn_BT[row][batch.mask_BT[row]].tolist()
        for number, reward in enumerate(sample.turn_rewards):
            place = max(sum(of_token <= number for of_token in turn_T) - 1, 0)
            if turn_T:
                rewards_BT[row, place] += reward
    return rewards_BT


def _penalty(batch: Batch, before: Before, config: AlgorithmConfig, coefficient: float) -> Tensor:
    if config.kl.placement != "reward":
        return torch.zeros_like(batch.sampler_logprobs_BT)
    assert before.old_logprobs_BT is not None, "KL in the reward is known before the update"
    assert before.ref_logprobs_BT is not None, "the recipe was checked: KL has a reference"
    return reward_penalty(before.old_logprobs_BT, before.ref_logprobs_BT, batch.mask_BT, coefficient)


def _by_member(batch: Batch, penalty_BT: Tensor, name: str) -> Tensor:
    penalty_B: list[float] = penalty_BT.double().sum(dim=1).tolist()
    groups = list(batch.groups.values())
    rewards_N_G = [[batch.samples[row].reward + penalty_B[row] for row in rows] for rows in groups]
    advantages_B = torch.zeros(batch.num_rows, dtype=torch.float64)
    for rows, advantages_G in zip(groups, ADVANTAGES[name](rewards_N_G), strict=True):
        advantages_B[rows] = torch.tensor(advantages_G, dtype=torch.float64)
    advantages_B1 = advantages_B.to(penalty_BT)[:, None]
    return torch.where(batch.mask_BT, advantages_B1, 0.0)


def _by_turn(batch: Batch, penalty_BT: Tensor, gamma: float) -> Tensor:
    groups = list(batch.groups.values())
    rewards_N_G_K = [[_turn_rewards(batch, row, penalty_BT) for row in rows] for rows in groups]
    advantages_BT = torch.zeros_like(penalty_BT)
    for rows, advantages_G_K in zip(groups, turn(rewards_N_G_K, gamma=gamma), strict=True):
        for row, advantages_K in zip(rows, advantages_G_K, strict=True):
            own_T = batch.mask_BT[row]
            table_K = torch.tensor(advantages_K, dtype=torch.float64).to(advantages_BT)
            advantages_BT[row, own_T] = table_K[batch.turn_BT[row, own_T]]
    return advantages_BT


def _turn_rewards(batch: Batch, row: int, penalty_BT: Tensor) -> Sequence[float]:
    return [
        reward + float(penalty_BT[row][batch.turn_BT[row] == number].double().sum())
        for number, reward in enumerate(batch.samples[row].turn_rewards)
    ]


def _by_value(
    batch: Batch, before: Before, config: AlgorithmConfig, rewards_BT: Tensor, flat_fraction: float
) -> Targets:
    assert before.values is not None, "gae switches the value head on"
    cut_off = [sample.is_truncated for sample in batch.samples]
    found = gae(
        rewards_BT,
        before.values.values_BT,
        batch.mask_BT,
        gamma=config.gamma,
        lam=config.lam,
        is_truncated_B=torch.tensor(cut_off),
        bootstrap_B=before.values.bootstrap_B,
        turn_BT=batch.turn_BT if config.gamma_unit == "turn" else None,
    )
    statistics = moments(found.advantages_BT, batch.mask_BT)
    return Targets(whiten(found.advantages_BT, batch.mask_BT, statistics), found.returns_BT, flat_fraction)
