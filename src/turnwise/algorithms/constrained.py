"""Log-probs under a grammar: renormalised over the allowed tokens, with forced tokens marked.

Engine and trainer must both renormalise: a constrained token was not drawn from the distribution over the
whole vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Constrained:
    """A distribution under a grammar."""

    logprobs_BTV: Tensor
    """Over the allowed set; −inf elsewhere. Exactly 0 where only one token is allowed."""
    is_forced_BT: Tensor
    """True where only one token is allowed: the model had no choice, so its loss mask is 0."""


def constrain(logits_BTV: Tensor, is_allowed_BTV: Tensor) -> Constrained:
    """p over {a, b, c} = [.7, .2, .1] with a and b allowed becomes [.7778, .2222, 0]."""
    num_allowed_BT = is_allowed_BTV.sum(dim=-1)
    if bool((num_allowed_BT == 0).any()):
        raise ValueError("the grammar allows no token at some position")
    wide_BTV = logits_BTV if logits_BTV.dtype.itemsize >= 4 else logits_BTV.float()
    logprobs_BTV = torch.where(is_allowed_BTV, wide_BTV, -torch.inf).log_softmax(dim=-1)
    return Constrained(logprobs_BTV, num_allowed_BT == 1)
