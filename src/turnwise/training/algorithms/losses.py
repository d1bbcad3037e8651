"""Policy losses per token, with masks of the clipped tokens, and the value loss.

One row is one sample. Everything at a masked position is exactly 0, in value and in gradient.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.config import CLIP_BOUNDS
from turnwise.training.algorithms.ratio import exp_bounded, masked_log_ratio, zero_where_masked


@dataclass(frozen=True, slots=True)
class Bounds:
    """The range that the ratio is clipped to: from 1 − low to 1 + high."""

    low: float = 0.2
    high: float = 0.28
    dual: float | None = None
    """Dual clip: the maximum ratio for a negative advantage (above 1, commonly 3); None switches it off."""

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 or self.high < 0:
            raise ValueError(f"clip low must be in [0, 1] and high at least 0, got {self.low}, {self.high}")
        if self.dual is not None and self.dual <= 1:
            raise ValueError(f"dual clip must be above 1, got {self.dual}")


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """The loss per token, to be aggregated, and detached tensors for the metrics."""

    losses_BT: Tensor
    ratio_BT: Tensor
    """1 at masked positions; for `gspo`, the ratio of the sequence at all of its tokens."""
    is_clipped_low_BT: Tensor
    is_clipped_high_BT: Tensor
    is_clipped_dual_BT: Tensor


Loss = Callable[[Tensor, Tensor, Tensor, Tensor, Bounds], PolicyLoss]
"""(logprobs_BT, old_logprobs_BT, advantages_BT, mask_BT, bounds)"""


def clip(
    logprobs_BT: Tensor, old_logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds
) -> PolicyLoss:
    """PPO: −min(r·A, clip(r)·A), where r = π_θ/π_old of the token."""
    ratio_BT = exp_bounded(masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT))
    return _clipped(ratio_BT, advantages_BT, mask_BT, bounds)


def gspo(
    logprobs_BT: Tensor, old_logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds
) -> PolicyLoss:
    """`clip` with one ratio per sequence: the geometric mean over its tokens (arXiv 2507.18071, eq. 14)."""
    log_ratio_BT = masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT)
    num_tokens_B = mask_BT.bool().sum(dim=1, keepdim=True).clamp(min=1)
    sequence_B = log_ratio_BT.detach().sum(dim=1, keepdim=True) / num_tokens_B
    # the value of the sequence with the gradient of the token, so that advantages may differ between tokens
    ratio_BT = exp_bounded(sequence_B + (log_ratio_BT - log_ratio_BT.detach()))
    return _clipped(ratio_BT, advantages_BT, mask_BT, bounds)


def _clipped(ratio_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds) -> PolicyLoss:
    advantages_BT = zero_where_masked(advantages_BT, mask_BT)
    is_high_BT = (ratio_BT > 1 + bounds.high) & (advantages_BT > 0)
    is_low_BT = (ratio_BT < 1 - bounds.low) & (advantages_BT < 0)
    is_dual_BT = torch.zeros_like(is_low_BT)
    # selected by `where`, not by min(): at a tie min() would split the gradient between its arguments
    used_BT = torch.where(is_high_BT, 1 + bounds.high, torch.where(is_low_BT, 1 - bounds.low, ratio_BT))
    if bounds.dual is not None:
        is_dual_BT = (ratio_BT > bounds.dual) & (advantages_BT < 0)
        used_BT = torch.where(is_dual_BT, bounds.dual, used_BT)
    reported_BT = torch.where(mask_BT.bool(), ratio_BT.detach(), torch.ones_like(ratio_BT))
    return PolicyLoss(-used_BT * advantages_BT, reported_BT, is_low_BT, is_high_BT, is_dual_BT)


def cispo(
    logprobs_BT: Tensor, old_logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds
) -> PolicyLoss:
    """−clip(r)·A·log π with the clipped ratio detached: a clipped token still has a gradient."""
    mask_BT = mask_BT.bool()
    ratio_BT = exp_bounded(masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT)).detach()
    weight_BT = ratio_BT.clamp(1 - bounds.low, 1 + bounds.high)
    is_low_BT, is_high_BT = (ratio_BT < weight_BT) & mask_BT, (ratio_BT > weight_BT) & mask_BT
    losses_BT = _score(weight_BT, logprobs_BT, advantages_BT, mask_BT)
    return PolicyLoss(losses_BT, ratio_BT, is_low_BT, is_high_BT, torch.zeros_like(is_low_BT))


def reinforce(
    logprobs_BT: Tensor, old_logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor, bounds: Bounds
) -> PolicyLoss:
    """−A·log π; the ratio is only reported, and no token is clipped."""
    del bounds
    ratio_BT = exp_bounded(masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT)).detach()
    losses_BT = _score(torch.ones_like(ratio_BT), logprobs_BT, advantages_BT, mask_BT)
    not_clipped_BT = torch.zeros_like(mask_BT, dtype=torch.bool)
    return PolicyLoss(losses_BT, ratio_BT, not_clipped_BT, not_clipped_BT, not_clipped_BT)


def _score(weight_BT: Tensor, logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor) -> Tensor:
    logprobs_BT = zero_where_masked(logprobs_BT, mask_BT)
    return -weight_BT * zero_where_masked(advantages_BT, mask_BT) * logprobs_BT


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
    """(V − return)² per token; with `max_change`, its maximum with V as is and V within that of old V."""
    # masked before the square: the backward pass multiplies by the difference, and 0 · NaN is NaN
    error_BT = zero_where_masked(values_BT - returns_BT, mask_BT)
    if max_change is None:
        return error_BT**2
    change_BT = (values_BT - old_values_BT).clamp(-max_change, max_change)
    clipped_error_BT = zero_where_masked(old_values_BT + change_BT - returns_BT, mask_BT)
    return torch.where(clipped_error_BT.abs() > error_BT.abs(), clipped_error_BT, error_BT) ** 2


def with_entropy_bonus(losses_BT: Tensor, entropy_BT: Tensor, mask_BT: Tensor, coefficient: float) -> Tensor:
    """loss − coefficient · entropy: the loss is minimised, so this sign raises entropy."""
    return losses_BT - coefficient * zero_where_masked(entropy_BT, mask_BT)
