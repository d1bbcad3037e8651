"""The memory of a pass through many equal layers, from passes through a few: it grows by the layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnwise.training.model.network import repeated_layers

FEW = (3, 4)
"""Numbers of layers that are measured: in both, some layer is neither the first nor the last."""


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """What a forward and backward pass holds."""

    at_head: int
    """After the forward pass."""
    peak: int
    largest: int
    """The largest single tensor."""


def by_layers(model: Any, measure: Callable[[], HeldBytes]) -> HeldBytes:
    """Call `measure` with a few of the model's layers, and add the others; with all if they differ."""
    config = model.config.get_text_config()
    num_layers: int = config.num_hidden_layers
    if num_layers <= sum(FEW) or not _are_equal(model, num_layers):
        return measure()
    try:
        found = []
        for config.num_hidden_layers in FEW:
            found.append(measure())
    finally:
        config.num_hidden_layers = num_layers
    fewer, more = found
    if more.at_head == fewer.at_head:  # the model does not look at the number in its config
        return measure()
    others = num_layers - FEW[0]
    return HeldBytes(
        fewer.at_head + others * (more.at_head - fewer.at_head),
        fewer.peak + others * (more.peak - fewer.peak),
        more.largest,
    )


def _are_equal(model: Any, num_layers: int) -> bool:
    """Whether all layers have the same modules and the same shapes."""
    layers = repeated_layers(model)
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    return len(layers) == num_layers and len(kinds) <= 1 and len(set(map(_outline, layers))) == 1


def _outline(layer: Any) -> tuple[Any, ...]:
    weights = ((name, weight.shape, weight.requires_grad) for name, weight in layer.named_parameters())
    return (*((name, type(module)) for name, module in layer.named_modules()), *weights)
