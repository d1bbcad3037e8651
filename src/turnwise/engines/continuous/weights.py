"""Takes named tensors and puts them into a model's parameters, all of them or none."""

from collections.abc import Mapping
from typing import Any

import torch


def check_weights(model: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    """Every parameter once, under its own name, in its own shape; ValueError names the first that is not."""
    # Tied parameters go by several names; any one of them will do.
    known = dict(model.named_parameters(remove_duplicate=False))
    for name, tensor in weights.items():
        if name not in known:
            raise ValueError(f"weights: {name!r} is no parameter of {type(model).__name__}")
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"weights: {name!r} is a {type(tensor).__name__}, not a tensor")
        if tensor.shape != known[name].shape:
            expected, given = tuple(known[name].shape), tuple(tensor.shape)
            raise ValueError(f"weights: {name!r} has shape {given}, the model's is {expected}")
    given_parameters = {id(known[name]) for name in weights}
    for name, parameter in known.items():
        if id(parameter) not in given_parameters:
            raise ValueError(f"weights: {name!r} is missing")


def copy_weights(model: torch.nn.Module, weights: Mapping[str, Any]) -> None:
    known = dict(model.named_parameters(remove_duplicate=False))
    with torch.inference_mode(False), torch.no_grad():
        for name, tensor in weights.items():
            known[name].copy_(tensor)
