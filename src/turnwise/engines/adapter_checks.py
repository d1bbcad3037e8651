"""Refuse LoRA adapters that do not fit a model, before anything of them is used."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnwise.types.protocols import Adapter

_PARTS = ("lora_A", "lora_B")


def check_adapter(adapter: Adapter, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
    """Raise a ValueError that names the first fault of the adapter.

    `shapes`: the shapes, by name, of the weights that an adapter may change. Without it, only the adapter
    itself is checked.
    """
    if adapter.rank < 1:
        raise ValueError(f"weights: the adapter's rank must be at least 1, not {adapter.rank}")
    if not (math.isfinite(adapter.alpha) and adapter.alpha > 0):
        raise ValueError(f"weights: the adapter's alpha must be a number above 0, not {adapter.alpha}")
    if not adapter.tensors:
        raise ValueError("weights: the adapter has no tensors")
    for module, down_RI, up_OR in _pairs(adapter.tensors):
        _check_pair(module, down_RI, up_OR, adapter.rank)
        if shapes is None:
            continue
        name, changed = f"{module}.weight", (up_OR.shape[0], down_RI.shape[1])
        if name not in shapes:
            raise ValueError(f"weights: the adapter changes {name!r}, which the model does not have")
        if tuple(shapes[name]) != changed:
            raise ValueError(
                f"weights: the adapter changes {name!r} as one of shape {changed}, "
                f"the model's is {tuple(shapes[name])}"
            )


def _pairs(tensors: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each module with its `lora_A` and `lora_B`; ValueError for a missing one or an invalid name."""
    modules: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        module, _, part = name.rpartition(".")
        if part not in _PARTS or not module:
            raise ValueError(
                f"weights: {name!r} is no tensor of an adapter: expected <module>.lora_A or .lora_B"
            )
        modules.setdefault(module, {})[part] = tensor
    for module, parts in modules.items():
        for part in _PARTS:
            if part not in parts:
                raise ValueError(f"weights: the adapter's {module + '.' + part!r} is missing")
        yield module, parts["lora_A"], parts["lora_B"]


def _check_pair(module: str, down_RI: Any, up_OR: Any, rank: int) -> None:
    for part, tensor, axis in (("lora_A", down_RI, 0), ("lora_B", up_OR, 1)):
        name = f"{module}.{part}"
        if not tensor.is_floating_point():
            raise ValueError(f"weights: {name!r} is of {tensor.dtype}, not of floating point")
        if tensor.dim() != 2 or tensor.shape[axis] != rank:
            raise ValueError(
                f"weights: {name!r} has shape {tuple(tensor.shape)}, and the adapter's rank is {rank}"
            )
