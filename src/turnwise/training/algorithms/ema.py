"""The exponential moving average that a reference policy follows."""

from torch import Tensor


def ema(reference: Tensor, current: Tensor, *, decay: float) -> Tensor:
    """d·reference + (1 − d)·current, computed in at least fp32, returned in the reference's dtype."""
    wide = reference if reference.dtype.itemsize >= 4 else reference.float()
    return (decay * wide + (1 - decay) * current.to(wide.dtype)).to(reference.dtype)
