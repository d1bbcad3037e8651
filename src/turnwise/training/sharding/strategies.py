"""The sharding strategies by name."""

from collections.abc import Callable

import torch
from torch import nn

from turnwise.training.sharding.fsdp import FullyShardedNetwork
from turnwise.training.sharding.shards import Shards
from turnwise.training.sharding.zero3 import ZeroNetwork

STRATEGIES: dict[str, Callable[[nn.Module, torch.device], Shards] | None] = {
    "data_parallel": None,
    "fsdp2": FullyShardedNetwork,
    "zero3": ZeroNetwork,
}
"""By hardware.strategy; None: every rank holds all weights."""
