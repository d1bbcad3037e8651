"""The loss with an entropy bonus."""

from torch import Tensor

from turnwise.algorithms.ratio import zero_where_masked


def with_entropy_bonus(losses_BT: Tensor, entropy_BT: Tensor, mask_BT: Tensor, coefficient: float) -> Tensor:
    """loss − coefficient · entropy: the loss is minimised, so this sign raises entropy."""
    return losses_BT - coefficient * zero_where_masked(entropy_BT, mask_BT)
