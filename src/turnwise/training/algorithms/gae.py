"""Generalised advantage estimation (GAE) over the model's own tokens, and whitening of its advantages."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.training.algorithms.ratio import zero_where_masked


@dataclass(frozen=True, slots=True)
class Estimates:
    """Advantages and returns; both are 0 at tokens that the model did not write."""

    advantages_BT: Tensor
    returns_BT: Tensor
    """Advantage (before whitening) + value: the target of the value head."""


def gae(
    rewards_BT: Tensor,
    values_BT: Tensor,
    mask_BT: Tensor,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    is_truncated_B: Tensor | None = None,
    bootstrap_B: Tensor | None = None,
    turn_BT: Tensor | None = None,
) -> Estimates:
    """Generalised advantage estimation in which the next token is the next one that the model wrote itself.

    The mask is 1 on the model's own tokens; values elsewhere (tool output, padding) are never read.
    `bootstrap_B` is the value after the last own token, used only in truncated rows (`is_truncated_B`). With
    `turn_BT`, the turn number of every token, γ applies between turns and is 1 within a turn. It is also 1
    before the bootstrap, because a row is truncated within a turn.

        mask    0 1 1 0 0 1     V(5) follows token 2; tokens 0, 3 and 4 are skipped
        turn    - 0 0 - - 1     with turns, γ applies between tokens 2 and 5 only
    """
    own_BT = mask_BT.bool()
    following_B = torch.zeros_like(values_BT[:, 0])
    if is_truncated_B is not None and bootstrap_B is not None:
        following_B = torch.where(is_truncated_B.bool(), bootstrap_B.to(values_BT.dtype), following_B)
    advantage_B = torch.zeros_like(following_B)
    discounts_BT = _discounts(own_BT, gamma, turn_BT).to(values_BT.dtype)
    advantages_BT = torch.zeros_like(values_BT)
    for t in reversed(range(values_BT.shape[1])):
        own_B, discount_B = own_BT[:, t], discounts_BT[:, t]
        delta_B = rewards_BT[:, t] + discount_B * following_B - values_BT[:, t]
        advantage_B = torch.where(own_B, delta_B + discount_B * lam * advantage_B, advantage_B)
        following_B = torch.where(own_B, values_BT[:, t], following_B)
        advantages_BT[:, t] = torch.where(own_B, advantage_B, advantages_BT[:, t])
    returns_BT = zero_where_masked(advantages_BT + values_BT, own_BT)
    return Estimates(advantages_BT.detach(), returns_BT.detach())


def _discounts(own_BT: Tensor, gamma: float, turn_BT: Tensor | None) -> Tensor:
    """The discount from an own token to the next own token."""
    if turn_BT is None:
        return torch.full(own_BT.shape, gamma, dtype=torch.float64, device=own_BT.device)
    discounts_BT = torch.ones(own_BT.shape, dtype=torch.float64, device=own_BT.device)
    none = torch.iinfo(turn_BT.dtype).min
    next_turn_B = torch.full_like(turn_BT[:, 0], none)
    for t in reversed(range(own_BT.shape[1])):
        is_last_B = own_BT[:, t] & (next_turn_B != turn_BT[:, t]) & (next_turn_B != none)
        discounts_BT[is_last_B, t] = gamma
        next_turn_B = torch.where(own_BT[:, t], turn_BT[:, t], next_turn_B)
    return discounts_BT


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over the entries where the mask is 1; sums of micro-batches and ranks add up to the batch's."""

    num: float
    total: float
    squares: float

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.num + other.num, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        return self.total / max(self.num, 1.0)

    @property
    def variance(self) -> float:
        """With n − 1 in the denominator; exactly 0 where the remainder is rounding error."""
        variance = (self.squares - self.num * self.mean**2) / max(self.num - 1.0, 1.0)
        # `<=` is false for NaN, so a NaN is returned and not replaced by 0
        return 0.0 if variance <= 1e-12 * max(self.squares / max(self.num, 1.0), 1e-12) else variance


def moments(values_BT: Tensor, mask_BT: Tensor) -> Moments:
    """The moments of the entries where the mask is 1, summed in fp64."""
    kept = values_BT.detach()[mask_BT.bool()].double()
    return Moments(float(kept.numel()), float(kept.sum()), float((kept * kept).sum()))


def whiten(values_BT: Tensor, mask_BT: Tensor, batch: Moments) -> Tensor:
    """(x − mean) / std with the moments of the *whole* batch; 0 where masked or if the variance is 0."""
    if batch.variance == 0.0:
        return torch.zeros_like(values_BT)
    return zero_where_masked((values_BT - batch.mean) / batch.variance**0.5, mask_BT)


def explained_variance(values_BT: Tensor, returns_BT: Tensor, mask_BT: Tensor) -> float:
    """1 − var(returns − values) / var(returns): 1 is perfect, 0 a constant guess; 0 if returns are equal."""
    total = moments(returns_BT, mask_BT).variance
    residual = moments(returns_BT - values_BT, mask_BT).variance
    return 0.0 if total == 0.0 else 1.0 - residual / total
