"""Takes logits, gives the entropy of each position's distribution and the loss with its bonus."""

from torch import Tensor

from turnwise.algorithms.ratio import zero_where_masked


def entropy(logits_BTV: Tensor) -> Tensor:
    """In nats, computed in at least fp32; a token ruled out by a logit of −inf adds 0, not NaN."""
    logprobs_BTV = (logits_BTV if logits_BTV.dtype.itemsize >= 4 else logits_BTV.float()).log_softmax(dim=-1)
    # before the product, so that 0 · −inf is met neither forward nor backward
    finite_BTV = logprobs_BTV.masked_fill(logprobs_BTV.isneginf(), 0.0)
    return -(logprobs_BTV.exp() * finite_BTV).sum(dim=-1)


def with_entropy_bonus(losses_BT: Tensor, entropy_BT: Tensor, mask_BT: Tensor, coefficient: float) -> Tensor:
    """The loss *less* coefficient · entropy: a loss is minimised, so adding it would lower entropy."""
    return losses_BT - coefficient * zero_where_masked(entropy_BT, mask_BT)
