"""Takes logits and what a grammar allows, gives log-probs over the allowed set and who had no choice.

Engine and trainer must both renormalise: a log-prob over the whole vocabulary is not that of the distribution
a constrained token was drawn from.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Constrained:
    """A distribution under a grammar."""

    logprobs_BTV: Tensor
    """Over the allowed set; −inf elsewhere. Exactly 0 where one token was all there was."""
    is_forced_BT: Tensor
    """One choice is no choice: such a token's loss mask is 0."""


def constrain(logits_BTV: Tensor, is_allowed_BTV: Tensor) -> Constrained:
    """p over {a, b, c} = [.7, .2, .1] with a and b allowed becomes [.7778, .2222, 0]."""
    num_allowed_BT = is_allowed_BTV.sum(dim=-1)
    if bool((num_allowed_BT == 0).any()):
        raise ValueError("a grammar that allows no token at some position")
    wide_BTV = logits_BTV if logits_BTV.dtype.itemsize >= 4 else logits_BTV.float()
    logprobs_BTV = torch.where(is_allowed_BTV, wide_BTV, -torch.inf).log_softmax(dim=-1)
    return Constrained(logprobs_BTV, num_allowed_BT == 1)
