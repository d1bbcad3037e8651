"""Takes a parameter that may be spread over ranks, gives this rank's part of it and where that stands.

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


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's part of a tensor."""

    tensor: Tensor
    start: int
    """How many numbers of the whole stand before it."""
    shape: tuple[int, ...]
    """Of the whole."""


def is_spread(parameter: Tensor) -> bool:
    from torch.distributed.tensor import DTensor

    return isinstance(parameter, DTensor)


def local(parameter: Tensor) -> Tensor:
    """This rank's part, in the very memory that the weights are in."""
    if not is_spread(parameter):
        return parameter
    with torch.no_grad():
        part: Tensor = cast("Any", parameter).to_local()
    return part.detach()


def whole_shape(parameter: Tensor) -> torch.Size:
    return parameter.shape


def start_of(parameter: Tensor) -> int:
    """How many numbers of the whole stand before this rank's part."""
    if not is_spread(parameter):
        return 0
    spread = cast("Any", parameter)
    assert [placement.is_shard(0) for placement in spread.placements] == [True], "FSDP2 cuts between rows"
    num_rows = parameter.shape[0]
    longest = -(-num_rows // spread.device_mesh.size())
    first = int(min(longest * spread.device_mesh.get_local_rank(), num_rows))
    return first * prod(parameter.shape[1:])


def part_of(whole: Tensor, parameter: Tensor) -> Tensor:
    """Of a tensor like the parameter's whole, what this rank has of it."""
    if not is_spread(parameter):
        return whole
    own = local(parameter)
    start = start_of(parameter)
    return whole.reshape(-1)[start : start + own.numel()].view(own.shape)


def shard_of(tensor: Tensor, parameter: Tensor) -> Tensor | Shard:
    """A tensor as large as the parameter's part, with its place; as it is where nothing is spread."""
    if not is_spread(parameter) or tensor.ndim == 0:
        return tensor
    return Shard(tensor, start_of(parameter), tuple(parameter.shape))
