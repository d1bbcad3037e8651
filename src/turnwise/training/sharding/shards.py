"""A rank's part of a sharded parameter, and where it lies in the full tensor.

A part is a contiguous range of the flattened tensor, described by its start and length: FSDP2 cuts between
rows, ZeRO-3 anywhere. A parameter that is not sharded is a single part.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, cast

import torch
from torch import Tensor


class Shards(Protocol):
    """A network whose weights are sharded over ranks, and gathered for each layer when it runs."""

    def gathered(self) -> AbstractContextManager[None]:
        """Gather all weights, for reading, while the block runs."""
        ...

    def settle(self) -> None:
        """Release all gathered weights, so that the parts may be written."""
        ...


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's part of a tensor."""

    tensor: Tensor
    start: int
    """The index of its first element in the flattened full tensor."""
    shape: tuple[int, ...]
    """The shape of the full tensor."""


def is_spread(parameter: Tensor) -> bool:
    return _by_zero(parameter) or _by_fsdp(parameter)


def is_averaged(parameter: Tensor) -> bool:
    """Return whether its gradient is the mean over ranks and not the sum."""
    return _by_fsdp(parameter)


def _by_fsdp(parameter: Tensor) -> bool:
    from torch.distributed.tensor import DTensor

    return isinstance(parameter, DTensor)


def _by_zero(parameter: Tensor) -> bool:
    return hasattr(parameter, "ds_tensor")


def local(parameter: Tensor) -> Tensor:
    """Return this rank's part, in the same memory as the weights."""
    spread = cast("Any", parameter)
    if _by_zero(parameter):
        size = min(spread.ds_tensor.numel(), max(prod(spread.ds_shape) - start_of(parameter), 0))
        part: Tensor = spread.ds_tensor.detach()[:size]  # the rest is padding
        return part
    if _by_fsdp(parameter):
        with torch.no_grad():
            part = spread.to_local()
        return part.detach()
    return parameter


def taken_gradient(parameter: Tensor) -> Tensor | None:
    """Return the gradient that backward passes have accumulated for this rank's part, and clear it."""
    spread = cast("Any", parameter)
    if _by_zero(parameter):
        kept: Tensor | None = spread.__dict__.pop("kept_grad", None)
        return None if kept is None else kept[: local(parameter).numel()]
    gradient, parameter.grad = parameter.grad, None
    return None if gradient is None else local(gradient)


def whole_shape(parameter: Tensor) -> torch.Size:
    shape: torch.Size = cast("Any", parameter).ds_shape if _by_zero(parameter) else parameter.shape
    return shape


def start_of(parameter: Tensor) -> int:
    """Return the index of this rank's first element in the flattened full tensor."""
    spread = cast("Any", parameter)
    if _by_zero(parameter):
        return int(torch.distributed.get_rank() * spread.ds_tensor.numel())
    if not _by_fsdp(parameter):
        return 0
    assert [placement.is_shard(0) for placement in spread.placements] == [True], "FSDP2 cuts between rows"
    num_rows = parameter.shape[0]
    longest = -(-num_rows // spread.device_mesh.size())
    first = int(min(longest * spread.device_mesh.get_local_rank(), num_rows))
    return first * prod(parameter.shape[1:])


def part_of(full: Tensor, parameter: Tensor) -> Tensor:
    """Return this rank's part of a full tensor; ValueError if it has not the parameter's shape."""
    if full.shape != whole_shape(parameter):
        raise ValueError(f"a tensor of shape {tuple(full.shape)}, expected {tuple(whole_shape(parameter))}")
    if not is_spread(parameter):
        return full
    own, start = local(parameter), start_of(parameter)
    return full.reshape(-1)[start : start + own.numel()].view(own.shape)


def shard_of(tensor: Tensor, parameter: Tensor) -> Tensor | Shard:
    """Return a tensor of the part's size with its place; unchanged if it is a scalar or not sharded."""
    if not is_spread(parameter) or tensor.ndim == 0:
        return tensor
    return Shard(tensor, start_of(parameter), tuple(whole_shape(parameter)))
