"""Takes log-probs of the sampler μ and of the trainer's π_old, gives weights, a mask and the ratio's base.

Engine and trainer differ numerically at equal weights, and by staleness in asynchronous runs. The loss of a
token is `weights_BT` × a loss from `losses.py` whose ratio is π_θ over `base_logprobs_BT`; `mask_BT` says
which tokens count, in numerator and denominator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.algorithms.ratio import exp_bounded, masked_log_ratio


@dataclass(frozen=True, slots=True)
class Limits:
    """What a correction cuts at."""

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
    """None of it carries a gradient, and all of it is known before the first minibatch."""

    weights_BT: Tensor
    """0 where the mask is 0."""
    mask_BT: Tensor
    base_logprobs_BT: Tensor


def decoupled(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: Limits
) -> Correction:
    """Each token weighs min(π_old/μ, C): truncated importance sampling."""
    ratio_BT = exp_bounded(masked_log_ratio(old_logprobs_BT, sampler_logprobs_BT, mask_BT).detach())
    return _correction(ratio_BT.clamp(max=limits.cap), mask_BT, old_logprobs_BT)


def bypass(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: Limits
) -> Correction:
    """The loss's ratio is π_θ/μ itself; π_old is not needed, and the first ratio is not 1."""
    del limits
    return _correction(torch.ones_like(old_logprobs_BT), mask_BT, sampler_logprobs_BT)


def sequence(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: Limits
) -> Correction:
    """All tokens of a sequence weigh min(Π π_old/μ, C): nearly unbiased, but of high variance when long."""
    log_ratio_BT = masked_log_ratio(old_logprobs_BT, sampler_logprobs_BT, mask_BT).detach()
    weight_B1 = exp_bounded(log_ratio_BT.sum(dim=1, keepdim=True)).clamp(max=limits.cap)
    return _correction(weight_B1.expand_as(log_ratio_BT), mask_BT, old_logprobs_BT)


def mask(sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: Limits) -> Correction:
    """Tokens whose π_old/μ is outside [low, high] are dropped; the others weigh 1."""
    ratio_BT = exp_bounded(masked_log_ratio(old_logprobs_BT, sampler_logprobs_BT, mask_BT).detach())
    kept_BT = within(ratio_BT, mask_BT, low=limits.low, high=limits.high)
    return _correction(torch.ones_like(old_logprobs_BT), kept_BT, old_logprobs_BT)


def mask_sequence(
    sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: Limits
) -> Correction:
    """As `mask` for whole sequences, by the geometric mean over tokens, so that length plays no part."""
    log_ratio_BT = masked_log_ratio(old_logprobs_BT, sampler_logprobs_BT, mask_BT).detach()
    num_tokens_B1 = mask_BT.bool().sum(dim=1, keepdim=True).clamp(min=1)
    ratio_B1 = exp_bounded(log_ratio_BT.sum(dim=1, keepdim=True) / num_tokens_B1)
    kept_BT = within(ratio_B1.expand_as(log_ratio_BT), mask_BT, low=limits.low, high=limits.high)
    return _correction(torch.ones_like(old_logprobs_BT), kept_BT, old_logprobs_BT)


def none(sampler_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor, limits: Limits) -> Correction:
    """Every token weighs 1: the sampler is taken to be π_old."""
    del sampler_logprobs_BT, limits
    return _correction(torch.ones_like(old_logprobs_BT), mask_BT, old_logprobs_BT)


def within(ratio_BT: Tensor, mask_BT: Tensor, *, low: float = 0.25, high: float = 4.0) -> Tensor:
    """The mask less tokens whose ratio is outside [low, high]: for numerator and denominator alike."""
    return mask_BT.bool() & (ratio_BT.detach() >= low) & (ratio_BT.detach() <= high)


def _correction(weights_BT: Tensor, mask_BT: Tensor, base_logprobs_BT: Tensor) -> Correction:
    kept_BT = mask_BT.bool()
    return Correction(torch.where(kept_BT, weights_BT, 0.0).detach(), kept_BT, base_logprobs_BT.detach())


CORRECTIONS: Mapping[str, Callable[[Tensor, Tensor, Tensor, Limits], Correction]] = {
    "decoupled": decoupled,
    "bypass": bypass,
    "sequence": sequence,
    "mask": mask,
    "mask_sequence": mask_sequence,
    "none": none,
}
