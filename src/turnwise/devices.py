"""Takes a recipe's word for a device, gives the one to use, the memory it has, and what it cannot hold."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

VARIABLE = "DEVICE_TYPE"
"""Of the environment: what `auto` means on this machine."""

DEVICES = ("cpu", "cuda", "mps")

MPS_MAX_BYTES = 2**32
"""Of one tensor: Metal ends the whole process at a larger one, so it is looked for beforehand."""


def choose_device(wanted: str = "auto") -> str:
    """What is wanted; for `auto` what DEVICE_TYPE says, else the best there is; ValueError if it is none."""
    name, said = "model.device", wanted
    if wanted == "auto":
        name, said = VARIABLE, os.environ.get(VARIABLE, "").strip().lower()
    if said in ("", "auto"):
        return next(device for device in ("cuda", "mps", "cpu") if is_there(device))
    if said not in DEVICES:
        raise ValueError(f"{name} is {said!r}: expected auto, {', '.join(DEVICES)}")
    if not is_there(said):
        raise ValueError(f"{name} is {said!r}, and torch finds none: set it to auto or cpu")
    return said


def ignored_variable(wanted: str) -> str:
    """What to say where DEVICE_TYPE asks for another device than the recipe does; else empty."""
    said = os.environ.get(VARIABLE, "").strip().lower()
    if wanted == "auto" or said in ("", "auto", wanted):
        return ""
    return f"{VARIABLE}={said} is not used: model.device is {wanted!r}; set it to 'auto' to use {VARIABLE}"


def is_there(device: str) -> bool:
    import torch

    if device == "cuda":
        return torch.cuda.is_available()
    return device == "cpu" or torch.backends.mps.is_available()


def handed(tensor: "torch.Tensor", device: "torch.device") -> "torch.Tensor":
    """The tensor on that device. A GPU copies it from pinned memory, so the caller does not wait for it."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return pinned(tensor).to(device, non_blocking=True)


def pinned(tensor: "torch.Tensor") -> "torch.Tensor":
    """A copy in pinned memory. torch refuses to pin an expanded tensor, so the copy is contiguous first."""
    return tensor.contiguous().pin_memory()


@dataclass(frozen=True, slots=True)
class Memory:
    """Of a device, in bytes."""

    free: int
    total: int


def memory_of(device: str) -> Memory:
    """What is there and what a process could still have of it."""
    import torch

    if device == "cuda":
        return Memory(*torch.cuda.mem_get_info())
    if device == "mps":  # shared with the machine: the system says how much of it a GPU should take
        most = torch.mps.recommended_max_memory()
        return Memory(most - torch.mps.driver_allocated_memory(), most)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Memory(_free_of_the_machine(total), total)


def _free_of_the_machine(total: int) -> int:
    """What the kernel would give up counts as free."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return total


def check_tensors(device: str, num_bytes: Mapping[str, int]) -> None:
    """ValueError if the device cannot hold one of these tensors, whatever memory it has: what to do instead.

    Names say what each is, with the key of the recipe that makes it smaller.
    """
    if device != "mps" or not num_bytes:
        return
    name, most = max(num_bytes.items(), key=lambda each: each[1])
    if most > MPS_MAX_BYTES:
        raise ValueError(
            f"{name}: {most / 2**30:.1f} GiB in one tensor, and mps takes {MPS_MAX_BYTES // 2**30} at most: "
            f"lower it, or use the CPU (model.device = 'cpu', or 'auto' with {VARIABLE}=cpu)"
        )
