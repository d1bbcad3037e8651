"""Choose a device and move tensors to it."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

VARIABLE = "DEVICE_TYPE"
"""The environment variable that sets the device for `auto`."""

DEVICES = ("cpu", "cuda", "mps")

MPS_MAX_BYTES = 2**32
"""Metal aborts the process on a larger tensor, so sizes are checked beforehand."""


def choose_device(wanted: str = "auto") -> str:
    """The wanted device; for `auto`, DEVICE_TYPE or else the best available. ValueError if there is none."""
    name, said = "model.device", wanted
    if wanted == "auto":
        name, said = VARIABLE, os.environ.get(VARIABLE, "").strip().lower()
    if said in ("", "auto"):
        return next(device for device in ("cuda", "mps", "cpu") if is_available(device))
    if said not in DEVICES:
        raise ValueError(f"{name} is {said!r}: expected auto, {', '.join(DEVICES)}")
    if not is_available(said):
        raise ValueError(f"{name} is {said!r}, and torch finds none: set it to auto or cpu")
    return said


def ignored_variable(wanted: str) -> str:
    """A warning if DEVICE_TYPE asks for another device than the recipe; else empty."""
    said = os.environ.get(VARIABLE, "").strip().lower()
    if wanted == "auto" or said in ("", "auto", wanted):
        return ""
    return f"{VARIABLE}={said} is not used: model.device is {wanted!r}; set it to 'auto' to use {VARIABLE}"


def is_available(device: str) -> bool:
    import torch

    if device == "cuda":
        return torch.cuda.is_available()
    return device == "cpu" or torch.backends.mps.is_available()


def to_device(tensor: "torch.Tensor", device: "torch.device") -> "torch.Tensor":
    """Move a tensor to a device; to a GPU from pinned memory, so that the caller does not wait."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return pinned(tensor).to(device, non_blocking=True)


def pinned(tensor: "torch.Tensor") -> "torch.Tensor":
    """A copy in pinned memory; contiguous first, since torch cannot pin an expanded tensor."""
    return tensor.contiguous().pin_memory()


def check_tensors(device: str, num_bytes: Mapping[str, int]) -> None:
    """Raise ValueError if one of these tensors is larger than the device allows a single tensor to be.

    Names describe the tensors and mention the recipe key that makes them smaller.
    """
    if device != "mps" or not num_bytes:
        return
    name, most = max(num_bytes.items(), key=lambda item: item[1])
    if most > MPS_MAX_BYTES:
        raise ValueError(
            f"{name}: {most / 2**30:.1f} GiB in one tensor, and mps takes {MPS_MAX_BYTES // 2**30} at most: "
            f"lower it, or use the CPU (model.device = 'cpu', or 'auto' with {VARIABLE}=cpu)"
        )
