"""Shard a network over ranks by FSDP2.

A layer's weights are gathered when it runs in the forward or backward pass, and released afterwards.
Gradients are reduced over ranks, and each rank keeps the part that matches its weights.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class FullyShardedNetwork:
    """A network sharded layer by layer; all that is outside of layers is one more unit."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from transformers.modeling_layers import GradientCheckpointingLayer

        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        # gradients are reduced in fp32, whatever their dtype
        options: dict[str, Any] = {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.float32),
            "reshard_after_forward": True,
        }
        self._modules: list[Any] = []
        layers = [module for module in network.modules() if isinstance(module, GradientCheckpointingLayer)]
        for module in [*layers, network]:
            fully_shard(module, **options)
            self._modules.append(module)

    def settle(self) -> None:
        """Do nothing: a layer's weights are released as soon as it has run."""

    @contextmanager
    def gathered(self) -> Iterator[None]:
        for module in self._modules:
            module.unshard()
        try:
            yield
        finally:
            for module in self._modules:
                module.reshard()
