"""Shard a network over ranks by FSDP2.

A layer's weights come together for its turn in the forward and in the backward pass and go again; gradients
are added up over ranks and each keeps the part that it has the weights of.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class FullyShardedNetwork:
    """Layers each by themselves, then all that is outside of them: embeddings, last norm, head."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from transformers.modeling_layers import GradientCheckpointingLayer

        mesh = init_device_mesh(device.type, (torch.distributed.get_world_size(),))
        # the sum over ranks in fp32, whatever the gradients are
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
        """A layer's weights go as soon as it has run."""

    @contextmanager
    def gathered(self) -> Iterator[None]:
        for module in self._modules:
            module.unshard()
        try:
            yield
        finally:
            for module in self._modules:
                module.reshard()
