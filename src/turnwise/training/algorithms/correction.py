"""Corrections for the mismatch between the sampler μ and the trainer's π_old.

Engine and trainer differ numerically at equal weights, and by staleness in asynchronous runs. The loss of a
token is `weights_BT` × a loss from `losses.py` whose ratio is π_θ over `base_logprobs_BT`. `mask_BT` selects
the tokens that count, in numerator and denominator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.training.algorithms.ratio import exp_bounded, masked_log_ratio


@dataclass(frozen=True, slots=True)
class CorrectionLimits:
    """The thresholds of a correction."""

    cap: float = 2.0
    """C: the largest weight of `decoupled` and `sequence`."""
    low: float = 0.5
    high: float = 2.0
    """`mask` and `mask_sequence` keep π_old/μ in [low, high]."""

    def __post_init__(self) -> None:
        if self.cap <= 0 or not 0 <= self.low <= 1 <= self.high:
            raise ValueError(f"need cap > 0 and low ≤ 1 ≤ high, got {self.cap}, {self.low}, {self.high}")


@dataclass(frozen=True, slots=True)
class Correction:
    """Weights, mask and base of the ratio: without gradient, and fixed before the first minibatch."""

    weights_BT: Tensor
    """0 where the mask is 0."""
    mask_BT: Tensor
    base_logprobs_BT: Tensor


def decoupled(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: CorrectionLimits
) -> Correction:
    """Truncated importance sampling: a token's weight is min(π_old/μ, C)."""
    ratio_BT = exp_bounded(masked_log_ratio(old_logprobs_BT, sampler_logprobs_BT, mask_BT).detach())
    return _correction(ratio_BT.clamp(max=limits.cap), mask_BT, old_logprobs_BT)


def bypass(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: CorrectionLimits
) -> Correction:
    """The ratio of the loss is π_θ/μ itself; π_old is not needed, and the first ratio is not 1."""
    del limits
    return _correction(torch.ones_like(old_logprobs_BT), mask_BT, sampler_logprobs_BT)


def sequence(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: CorrectionLimits
) -> Correction:
    """All tokens of a sequence weigh min(Π π_old/μ, C): nearly unbiased, but long ones have high variance."""
    log_ratio_BT = masked_log_ratio(old_logprobs_BT, sampler_logprobs_BT, mask_BT).detach()
    weight_B1 = exp_bounded(log_ratio_BT.sum(dim=1, keepdim=True)).clamp(max=limits.cap)
    return _correction(weight_B1.expand_as(log_ratio_BT), mask_BT, old_logprobs_BT)


def mask(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: CorrectionLimits
) -> Correction:
    """Tokens with π_old/μ outside [low, high] are dropped; the others have weight 1."""
    ratio_BT = exp_bounded(masked_log_ratio(old_logprobs_BT, sampler_logprobs_BT, mask_BT).detach())
    kept_BT = within(ratio_BT, mask_BT, low=limits.low, high=limits.high)
    return _correction(torch.ones_like(old_logprobs_BT), kept_BT, old_logprobs_BT)


def mask_sequence(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: CorrectionLimits
) -> Correction:
    """`mask` for whole sequences, by the geometric mean over tokens, which does not depend on length."""
    log_ratio_BT = masked_log_ratio(old_logprobs_BT, sampler_logprobs_BT, mask_BT).detach()
    num_tokens_B1 = mask_BT.bool().sum(dim=1, keepdim=True).clamp(min=1)
    ratio_B1 = exp_bounded(log_ratio_BT.sum(dim=1, keepdim=True) / num_tokens_B1)
    kept_BT = within(ratio_B1.expand_as(log_ratio_BT), mask_BT, low=limits.low, high=limits.high)
    return _correction(torch.ones_like(old_logprobs_BT), kept_BT, old_logprobs_BT)


def none(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: CorrectionLimits
) -> Correction:
    """Every token has weight 1: the sampler is assumed to be π_old."""
    del sampler_logprobs_BT, limits
    return _correction(torch.ones_like(old_logprobs_BT), mask_BT, old_logprobs_BT)


def within(ratio_BT: Tensor, mask_BT: Tensor, *, low: float = 0.25, high: float = 4.0) -> Tensor:
    """The mask without tokens whose ratio is outside [low, high]."""
    return mask_BT.bool() & (ratio_BT.detach() >= low) & (ratio_BT.detach() <= high)


def _correction(weights_BT: Tensor, mask_BT: Tensor, base_logprobs_BT: Tensor) -> Correction:
    kept_BT = mask_BT.bool()
    return Correction(torch.where(kept_BT, weights_BT, 0.0).detach(), kept_BT, base_logprobs_BT.detach())


CORRECTIONS: Mapping[str, Callable[[Tensor, Tensor, Tensor, CorrectionLimits], Correction]] = {
    "decoupled": decoupled,
    "bypass": bypass,
    "sequence": sequence,
    "mask": mask,
    "mask_sequence": mask_sequence,
    "none": none,
}
