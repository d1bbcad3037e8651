"""A rank's part of a sharded parameter, and where it lies in the full tensor.

A part is a run of the whole tensor's numbers in their order, so its start and its length say all: FSDP2 cuts
between rows, ZeRO-3 anywhere. What is not spread is one part, the whole of it.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, cast

import torch
from torch import Tensor


class Shards(Protocol):
    """What spreads the weights of a network over ranks and brings them together for each layer's turn."""

    def gathered(self) -> AbstractContextManager[None]:
        """All of them whole, to be read, while the block runs."""
        ...

    def settle(self) -> None:
        """From now on the parts are all there is: they may be written to."""
        ...


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's part of a tensor."""

    tensor: Tensor
    start: int
    """How many numbers of the whole stand before it."""
    shape: tuple[int, ...]
    """Of the whole."""


def is_spread(parameter: Tensor) -> bool:
    return _by_zero(parameter) or _by_fsdp(parameter)


def is_averaged(parameter: Tensor) -> bool:
    """Whether its gradient is the mean of the ranks' and not their sum."""
    return _by_fsdp(parameter)


def _by_fsdp(parameter: Tensor) -> bool:
    from torch.distributed.tensor import DTensor

    return isinstance(parameter, DTensor)


def _by_zero(parameter: Tensor) -> bool:
    return hasattr(parameter, "ds_tensor")


def local(parameter: Tensor) -> Tensor:
    """This rank's part, in the very memory that the weights are in."""
    spread = cast("Any", parameter)
    if _by_zero(parameter):
        size = min(spread.ds_tensor.numel(), max(prod(spread.ds_shape) - start_of(parameter), 0))
        part: Tensor = spread.ds_tensor.detach()[:size]  # past it the last rank's is filled up
        return part
    if _by_fsdp(parameter):
        with torch.no_grad():
            part = spread.to_local()
        return part.detach()
    return parameter


def taken_gradient(parameter: Tensor) -> Tensor | None:
    """Of this rank's part, what backward passes have left; it is gone from there then."""
    spread = cast("Any", parameter)
    if _by_zero(parameter):
        kept: Tensor | None = spread.__dict__.pop("kept_grad", None)
        return None if kept is None else kept[: local(parameter).numel()]
    given, parameter.grad = parameter.grad, None
    return None if given is None else local(given)


def whole_shape(parameter: Tensor) -> torch.Size:
    shape: torch.Size = cast("Any", parameter).ds_shape if _by_zero(parameter) else parameter.shape
    return shape


def start_of(parameter: Tensor) -> int:
    """How many numbers of the whole stand before this rank's part."""
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


def part_of(whole: Tensor, parameter: Tensor) -> Tensor:
    """Of a tensor like the parameter's whole, what this rank has of it."""
    if not is_spread(parameter):
        return whole
    own, start = local(parameter), start_of(parameter)
    return whole.reshape(-1)[start : start + own.numel()].view(own.shape)


def shard_of(tensor: Tensor, parameter: Tensor) -> Tensor | Shard:
    """A tensor as large as the parameter's part, with its place; as it is where nothing is spread."""
    if not is_spread(parameter) or tensor.ndim == 0:
        return tensor
    return Shard(tensor, start_of(parameter), tuple(whole_shape(parameter)))
