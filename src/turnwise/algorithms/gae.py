"""Takes rewards and values by token, gives GAE advantages and returns over the model's own tokens."""

from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.algorithms.ratio import zero_where_masked


@dataclass(frozen=True, slots=True)
class Estimates:
    """Both are 0 at tokens that are not the model's own."""

    advantages_BT: Tensor
    returns_BT: Tensor
    """Advantage + value, from advantages not yet whitened: what the value head learns."""


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
    """Generalised advantage estimation in which "the next token" is the next of the model's own.

    The mask is 1 on own tokens; what stands elsewhere (tool output, padding) is never read. `bootstrap_B` is
    the value after the last own token, and counts only in rows that were cut off (`is_truncated_B`). With
    `turn_BT`, the number of each token's turn, γ applies from one turn to the next and is 1 within a turn,
    also to the bootstrap, because a row is cut off within a turn.

        mask    0 1 1 0 0 1     V(5) follows token 2; tokens 0, 3 and 4 do not exist
        turn    - 0 0 - - 1     by turn, γ stands between tokens 2 and 5 only
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
    """The discount from each own token to the next own one."""
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
    """Sums over masked-in entries; those of micro-batches or ranks add up to the whole batch's."""

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
        """With n − 1; exactly 0 where what is left is rounding."""
        variance = (self.squares - self.num * self.mean**2) / max(self.num - 1.0, 1.0)
        # asked this way round, a NaN stays a NaN and is seen
        return 0.0 if variance <= 1e-12 * max(self.squares / max(self.num, 1.0), 1e-12) else variance


def moments(values_BT: Tensor, mask_BT: Tensor) -> Moments:
    """Of the entries where the mask is 1, summed in fp64."""
    kept = values_BT.detach()[mask_BT.bool()].double()
    return Moments(float(kept.numel()), float(kept.sum()), float((kept * kept).sum()))


def whiten(values_BT: Tensor, mask_BT: Tensor, whole: Moments) -> Tensor:
    """(x − mean) / std by the moments of the *whole* batch; 0 where masked or where nothing varies."""
    if whole.variance == 0.0:
        return torch.zeros_like(values_BT)
    return zero_where_masked((values_BT - whole.mean) / whole.variance**0.5, mask_BT)


def explained_variance(values_BT: Tensor, returns_BT: Tensor, mask_BT: Tensor) -> float:
    """1 − var(returns − values) / var(returns): 1 is perfect, 0 no better than a constant; 0 if flat."""
    spread = moments(returns_BT, mask_BT).variance
    missed = moments(returns_BT - values_BT, mask_BT).variance
    return 0.0 if spread == 0.0 else 1.0 - missed / spread
