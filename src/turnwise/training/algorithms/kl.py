"""KL divergence from the reference policy per token, its adaptive coefficient and its cap.

All estimators estimate KL(π‖ref) on tokens drawn from π, in nats. Their gradients as a loss differ: see the
docstring of the estimator.
"""

import math
from collections.abc import Callable, Mapping

from torch import Tensor

from turnwise.training.algorithms.ratio import exp_bounded, masked_log_ratio


def k1(logprobs_BT: Tensor, ref_logprobs_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """log π/ref. Unbiased, may be negative; as a loss its expected gradient is 0."""
    return masked_log_ratio(logprobs_BT, ref_logprobs_BT, mask_BT)


def k2(logprobs_BT: Tensor, ref_logprobs_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """½(log π/ref)². Biased in value; as a loss its expected gradient is that of KL(π‖ref)."""
    return 0.5 * masked_log_ratio(logprobs_BT, ref_logprobs_BT, mask_BT) ** 2


def k3(logprobs_BT: Tensor, ref_logprobs_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """ref/π − 1 − log ref/π. Unbiased and never negative; as a loss its gradient is that of KL(ref‖π)."""
    log_ratio_BT = masked_log_ratio(ref_logprobs_BT, logprobs_BT, mask_BT)
    return exp_bounded(log_ratio_BT) - 1 - log_ratio_BT


def k2_loss(logprobs_BT: Tensor, ref_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """`k2`. Its gradient is exact on tokens drawn from π_θ, that is, in the first minibatch."""
    del old_logprobs_BT
    return k2(logprobs_BT, ref_logprobs_BT, mask_BT)


def k3_ratio(
    logprobs_BT: Tensor, ref_logprobs_BT: Tensor, old_logprobs_BT: Tensor, mask_BT: Tensor
) -> Tensor:
    """π_θ/π_old · k3, differentiated through both: on tokens drawn from π_old, the value and gradient of
    KL(π_θ‖ref)."""
    ratio_BT = exp_bounded(masked_log_ratio(logprobs_BT, old_logprobs_BT, mask_BT))
    return ratio_BT * k3(logprobs_BT, ref_logprobs_BT, mask_BT)


KL_LOSSES: Mapping[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "k2": k2_loss,
    "k3_ratio": k3_ratio,
}
"""KL terms for the loss: (logprobs_BT, ref_logprobs_BT, old_logprobs_BT, mask_BT). k1 and k3 are not offered:
the expected gradient of k1 is 0, and that of k3 belongs to another divergence."""


def reward_penalty(
    old_logprobs_BT: Tensor, ref_logprobs_BT: Tensor, mask_BT: Tensor, coefficient: float
) -> Tensor:
    """−coefficient · k1(π_old, ref) per token, to be *added* to rewards; a row sums to a member's penalty."""
    return -coefficient * k1(old_logprobs_BT, ref_logprobs_BT, mask_BT).detach()


def adapt(
    coefficient: float,
    kl_per_token: float,
    *,
    target: float,
    gain: float = 0.1,
    lowest: float = 1e-5,
    highest: float = 1.0,
) -> float:
    """The coefficient times 1 + gain · (kl/target − 1), that error bounded at ±0.2 (arXiv 1909.08593).

    A KL that is not finite leaves the coefficient unchanged. `lowest` keeps it from decaying so far that it
    cannot recover.
    """
    if target <= 0:
        raise ValueError(f"KL target must be above 0, got {target}")
    if not math.isfinite(kl_per_token):
        return coefficient
    error = min(max(kl_per_token / target - 1, -0.2), 0.2)
    return min(max(coefficient * (1 + gain * error), lowest), highest)


def is_over_cap(kl_per_token: float, cap: float = 3.0) -> bool:
    """Whether the update must be skipped; NaN counts as over the cap.

    The loss itself is never clamped: a clamp would remove the gradient that pulls the policy back.
    """
    return not kl_per_token <= cap
