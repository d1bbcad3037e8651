"""Probability ratios from log-probs that stay finite and keep their gradient."""

from torch import Tensor, where

MAX_LOG_RATIO = 20.0
"""e^20 is 5e8. Above 88 exp() is inf in fp32; above 44 its square in a gradient norm is inf."""


def exp_bounded(log_ratio: Tensor) -> Tensor:
    """exp(log_ratio), bounded to e^±20; past the bound the gradient is that of the bound, not 0."""
    bounded = log_ratio.detach().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    # the added term is exactly 0 and carries the gradient: a plain clamp would have gradient 0 for the tokens
    # that have drifted furthest, and they could never recover
    return (bounded + (log_ratio - log_ratio.detach())).exp()


def masked_log_ratio(logprobs_BT: Tensor, other_logprobs_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """logprobs − other where the mask is 1; exactly 0, in value and gradient, elsewhere."""
    return zero_where_masked(logprobs_BT - other_logprobs_BT, mask_BT)


def zero_where_masked(values_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The values where the mask is 1, and 0 elsewhere, also where they are NaN, which times 0 is NaN."""
    return where(mask_BT.bool(), values_BT, values_BT.new_zeros(()))
