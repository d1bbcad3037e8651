"""Takes log-probs before and during the update and advantages, gives a loss by token and how it was clipped.

One row is one sample. Everything at a masked position is exactly 0, in value and in gradient.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.algorithms.ratio import exp_bounded, masked_log_ratio, zero_where_masked
from turnwise.config import CLIP_BOUNDS


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far the ratio may go: from 1 − low to 1 + high."""

    low: float = 0.2
    high: float = 0.28
    dual: float | None = None
    """Dual clip: for a negative advantage a ratio above this (> 1, commonly 3) counts as this; None: off."""

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"clip low must be in [0, 1] and high at least 0, got {self.low}, {self.high}")
        if self.dual is not None and self.dual <= 1:
            raise ValueError(f"dual clip must be above 1, got {self.dual}")


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """A loss to be aggregated, and detached figures for health."""

    losses_BT: Tensor
    ratio_BT: Tensor
    """1 at masked positions; for `gspo` the sequence's ratio at each of its tokens."""
    is_clipped_low_BT: Tensor
    is_clipped_high_BT: Tensor
    is_clipped_dual_BT: Tensor


Loss = Callable[[Tensor, Tensor, Tensor, Tensor, Bounds], PolicyLoss]
"""(logprobs_BT, old_logprobs_BT, advantages_BT, mask_BT, bounds)"""


def clip(
    logprobs_BT: Tensor, old_logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds
) -> PolicyLoss:
    """PPO: −min(r·A, clip(r)·A), r = π_θ/π_old of each token."""
    ratio_BT = exp_bounded(masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT))
    return _clipped(ratio_BT, advantages_BT, mask_BT, bounds)


def gspo(
    logprobs_BT: Tensor, old_logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds
) -> PolicyLoss:
    """As `clip` with one ratio a sequence: the geometric mean of its tokens' (arXiv 2507.18071, eq. 14)."""
    log_ratio_BT = masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT)
    num_tokens_B = mask_BT.bool().sum(dim=1, keepdim=True).clamp(min=1)
    sequence_B = log_ratio_BT.detach().sum(dim=1, keepdim=True) / num_tokens_B
    # the sequence's value with each token's own gradient: advantages may then differ between tokens
    ratio_BT = exp_bounded(sequence_B + (log_ratio_BT - log_ratio_BT.detach()))
    return _clipped(ratio_BT, advantages_BT, mask_BT, bounds)


def _clipped(ratio_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds) -> PolicyLoss:
    advantages_BT = zero_where_masked(advantages_BT, mask_BT)
    is_high_BT = (ratio_BT > 1 + bounds.high) & (advantages_BT > 0)
    is_low_BT = (ratio_BT < 1 - bounds.low) & (advantages_BT < 0)
    is_dual_BT = torch.zeros_like(is_low_BT)
    # chosen outright, not by min(): at a tie min() would halve the gradient between its arguments
    used_BT = torch.where(is_high_BT, 1 + bounds.high, torch.where(is_low_BT, 1 - bounds.low, ratio_BT))
    if bounds.dual is not None:
        is_dual_BT = (ratio_BT > bounds.dual) & (advantages_BT < 0)
        used_BT = torch.where(is_dual_BT, bounds.dual, used_BT)
    shown_BT = _shown(ratio_BT, mask_BT)
    return PolicyLoss(-used_BT * advantages_BT, shown_BT, is_low_BT, is_high_BT, is_dual_BT)


def cispo(
    logprobs_BT: Tensor, old_logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds
) -> PolicyLoss:
    """−clip(r)·A·log π with the clipped ratio held constant: a clipped token still has a gradient."""
    mask_BT = mask_BT.bool()
    ratio_BT = exp_bounded(masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT)).detach()
    weight_BT = ratio_BT.clamp(1 - bounds.low, 1 + bounds.high)
    is_low_BT, is_high_BT = (ratio_BT < weight_BT) & mask_BT, (ratio_BT > weight_BT) & mask_BT
    losses_BT = _score(weight_BT, logprobs_BT, advantages_BT, mask_BT)
    return PolicyLoss(losses_BT, ratio_BT, is_low_BT, is_high_BT, torch.zeros_like(is_low_BT))


def reinforce(
    logprobs_BT: Tensor, old_logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds
) -> PolicyLoss:
    """−A·log π; the ratio is only reported, and nothing is clipped."""
    del bounds
    ratio_BT = exp_bounded(masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT)).detach()
    losses_BT = _score(torch.ones_like(ratio_BT), logprobs_BT, advantages_BT, mask_BT)
    nothing_BT = torch.zeros_like(mask_BT, dtype=torch.bool)
    return PolicyLoss(losses_BT, ratio_BT, nothing_BT, nothing_BT, nothing_BT)


def _score(weight_BT: Tensor, logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor) -> Tensor:
    logprobs_BT = zero_where_masked(logprobs_BT, mask_BT)
    return -weight_BT * zero_where_masked(advantages_BT, mask_BT) * logprobs_BT


def _shown(ratio_BT: Tensor, mask_BT: Tensor) -> Tensor:
    return torch.where(mask_BT.bool(), ratio_BT.detach(), torch.ones_like(ratio_BT))


LOSSES: Mapping[str, Loss] = {"clip": clip, "gspo": gspo, "cispo": cispo, "reinforce": reinforce}

DEFAULT_BOUNDS: Mapping[str, Bounds] = {name: Bounds(low, high) for name, (low, high) in CLIP_BOUNDS.items()}


def value_loss(
    values_BT: Tensor,
    old_values_BT: Tensor,
    returns_BT: Tensor,
    mask_BT: Tensor,
    *,
    max_change: float | None = None,
) -> Tensor:
    """(V − return)² by token; with `max_change`, the larger of that and the same with V kept near old V."""
    # masked before the square: its backward multiplies by the difference, and 0 times a NaN is NaN
    missed_BT = zero_where_masked(values_BT - returns_BT, mask_BT)
    if max_change is None:
        return missed_BT**2
    change_BT = (values_BT - old_values_BT).clamp(-max_change, max_change)
    near_missed_BT = zero_where_masked(old_values_BT + change_BT - returns_BT, mask_BT)
    return torch.where(near_missed_BT.abs() > missed_BT.abs(), near_missed_BT, missed_BT) ** 2
