"""Token entropy and the entropy bonus of the loss."""

from torch import Tensor

from turnwise.algorithms.ratio import zero_where_masked


def entropy(logits_BTV: Tensor) -> Tensor:
    """Entropy in nats, computed in at least fp32; a token with a logit of −inf contributes 0, not NaN."""
    logprobs_BTV = (logits_BTV if logits_BTV.dtype.itemsize >= 4 else logits_BTV.float()).log_softmax(dim=-1)
    # filled before the product: 0 · −inf would be NaN, forward and backward
    finite_BTV = logprobs_BTV.masked_fill(logprobs_BTV.isneginf(), 0.0)
    return -(logprobs_BTV.exp() * finite_BTV).sum(dim=-1)


def with_entropy_bonus(losses_BT: Tensor, entropy_BT: Tensor, mask_BT: Tensor, coefficient: float) -> Tensor:
    """loss − coefficient · entropy: the loss is minimised, so this sign raises entropy."""
    return losses_BT - coefficient * zero_where_masked(entropy_BT, mask_BT)
