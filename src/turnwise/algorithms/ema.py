"""Takes a reference's value and the policy's, gives the reference's next: an exponential moving average."""

import math

from torch import Tensor


def ema(reference: Tensor, current: Tensor, *, decay: float) -> Tensor:
    """d·reference + (1 − d)·current, in fp32 at least, in the reference's own dtype."""
    wide = reference if reference.dtype.itemsize >= 4 else reference.float()
    return (decay * wide + (1 - decay) * current.to(wide.dtype)).to(reference.dtype)


def half_life(decay: float) -> float:
    """Updates after which half of the old reference is left: 69 for 0.99."""
    return math.log(0.5) / math.log(decay)
