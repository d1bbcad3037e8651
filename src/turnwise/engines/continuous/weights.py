"""Load named tensors into a model's parameters, all of them or none."""

from collections.abc import Mapping
from typing import Any

import torch

from turnwise.types.protocols import Adapter


def check_weights(model: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Raise ValueError unless every parameter is given, with its own name and shape."""
    # Tied parameters have several names; any one of them is accepted.
    known = dict(model.named_parameters(remove_duplicate=False))
    for name, tensor in weights.items():
        if name not in known:
            raise ValueError(f"weights: {name!r} is no parameter of {type(model).__name__}")
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"weights: {name!r} is a {type(tensor).__name__}, not a tensor")
        if tensor.shape != known[name].shape:
            expected, actual = tuple(known[name].shape), tuple(tensor.shape)
            raise ValueError(f"weights: {name!r} has shape {actual}, the model's is {expected}")
        if known[name].is_floating_point():
            _check_range(name, tensor, known[name].dtype)
    given_parameters = {id(known[name]) for name in weights}
    for name, parameter in known.items():
        if id(parameter) not in given_parameters:
            raise ValueError(f"weights: {name!r} is missing")


def _check_range(name: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    """Raise ValueError if the tensor is not floating point or overflows in the model's dtype."""
    if not tensor.is_floating_point():
        raise ValueError(f"weights: {name!r} is of {tensor.dtype}, the model's is of {dtype}")
    # Factor 2: bfloat16 and float32 have almost the same range, and the check below reads every number.
    is_wider = torch.finfo(tensor.dtype).max > 2 * torch.finfo(dtype).max
    if is_wider and not tensor.to(dtype).isfinite().all():
        raise ValueError(f"weights: {name!r} holds numbers too large for the model's {dtype}")


def merge(base: Mapping[str, torch.Tensor], adapter: Adapter) -> dict[str, torch.Tensor]:
    """Return the weights that an adapter changes, with it merged; ValueError if one is not finite."""
    merged = {}
    with torch.no_grad():
        for name in changed_by(adapter):
            module = name.removesuffix(".weight")
            pair = (adapter.tensors[f"{module}.lora_B"], adapter.tensors[f"{module}.lora_A"])
            up_DR, down_RD = (tensor.to(base[name].device, torch.float32) for tensor in pair)
            delta_DD = up_DR @ down_RD * (adapter.alpha / adapter.rank)
            merged[name] = (base[name].float() + delta_DD).to(base[name].dtype)
            if not merged[name].isfinite().all():
                raise ValueError(f"weights: with the adapter, {name!r} is no longer finite")
    return merged


def changed_by(adapter: Adapter) -> list[str]:
    modules = (name.removesuffix(".lora_A") for name in adapter.tensors if name.endswith(".lora_A"))
    return [f"{module}.weight" for module in modules]


def copy_weights(model: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    known = dict(model.named_parameters(remove_duplicate=False))
    with torch.inference_mode(False), torch.no_grad():
        for name, tensor in weights.items():
            known[name].copy_(tensor)
