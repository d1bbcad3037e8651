"""The memory of a pass through many equal layers, from passes through a few: it grows by the layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnwise.training.policy.network import repeated_layers

FEW = (3, 4)
"""Numbers of layers of a kind that are measured: in both, some layer is neither the first nor the last."""


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """What a forward and backward pass holds."""

    at_head: int
    """After the forward pass."""
    peak: int
    largest: int
    """The largest single tensor."""


def by_layers(model: Any, num_recomputed: int, measure: Callable[[int], HeldBytes]) -> HeldBytes:
    """Call `measure` with a few of the model's layers, and add the others; with all if they differ.

    The first `num_recomputed` layers are recomputed, the others kept. `measure` gets the number of recomputed
    ones. Both kinds grow by the layer, but by different amounts.
    """
    config = model.config.get_text_config()
    num_layers: int = config.num_hidden_layers
    if num_layers <= sum(FEW) or not _are_equal(model, num_layers):
        return measure(num_recomputed)

    def measure_few(recomputed: int, kept: int) -> HeldBytes:
        config.num_hidden_layers = recomputed + kept
        return measure(recomputed)

    few, more = FEW
    num_kept = num_layers - num_recomputed
    recomputed, kept = min(num_recomputed, few), min(num_kept, few)
    larger: list[tuple[int, HeldBytes]] = []
    """For each kind, the number of layers that were not measured, and a measurement with one layer more."""
    try:
        found = measure_few(recomputed, kept)
        if num_recomputed > recomputed:
            larger.append((num_recomputed - recomputed, measure_few(more, kept)))
        if num_kept > kept:
            larger.append((num_kept - kept, measure_few(recomputed, more)))
    finally:
        config.num_hidden_layers = num_layers
    if any(one.at_head == found.at_head for _, one in larger):  # the model ignores the number in its config
        return measure(num_recomputed)
    return HeldBytes(
        found.at_head + sum(number * (one.at_head - found.at_head) for number, one in larger),
        found.peak + sum(number * (one.peak - found.peak) for number, one in larger),
        max(found.largest, *(one.largest for _, one in larger)),
    )


def _are_equal(model: Any, num_layers: int) -> bool:
    """Whether all layers have the same modules and the same shapes."""
    layers = repeated_layers(model)
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ())
    return len(layers) == num_layers and len(kinds) <= 1 and len(set(map(_outline, layers))) == 1


def _outline(layer: Any) -> tuple[Any, ...]:
    weights = ((name, weight.shape, weight.requires_grad) for name, weight in layer.named_parameters())
    return (*((name, type(module)) for name, module in layer.named_modules()), *weights)
