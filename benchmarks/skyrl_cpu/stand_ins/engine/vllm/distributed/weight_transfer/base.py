"""What SkyRL's weight sources derive from and use."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ParamMeta:
    """The name, dtype and whole shape of a parameter."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]


class WeightSource:
    """Parameters of the policy: what they are, and the gathered tensors in the same order."""

    def metadata(self) -> list[ParamMeta]:
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        raise NotImplementedError


def materialize_full_tensor(parameter: torch.Tensor) -> torch.Tensor:
    """The whole tensor of a shard; all ranks must call it."""
    full_tensor = getattr(parameter, "full_tensor", None)
    return parameter if full_tensor is None else full_tensor()
