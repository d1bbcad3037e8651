"""The reference policy as an exponential moving average of the policy."""

import math

from torch import Tensor


def ema(reference: Tensor, current: Tensor, *, decay: float) -> Tensor:
    """d·reference + (1 − d)·current, computed in at least fp32, returned in the reference's dtype."""
    wide = reference if reference.dtype.itemsize >= 4 else reference.float()
    return (decay * wide + (1 - decay) * current.to(wide.dtype)).to(reference.dtype)


def half_life(decay: float) -> float:
    """Number of updates after which the old reference has weight ½: 69 for a decay of 0.99."""
    return math.log(0.5) / math.log(decay)
