"""Takes a strategy by name, gives how a policy's weights are spread over ranks, and what that cannot do."""

from collections.abc import Callable

import torch
from torch import nn

from turnwise.config import Recipe
from turnwise.training.fsdp import FullyShardedNetwork
from turnwise.training.shards import Shards

STRATEGIES: dict[str, Callable[[nn.Module, torch.device], Shards] | None] = {
    "data_parallel": None,
    "fsdp2": FullyShardedNetwork,
}
"""None: every rank holds all weights."""


def is_sharded(strategy: str) -> bool:
    return STRATEGIES[strategy] is not None


def why_not(strategy: str, recipe: Recipe) -> str:
    """Why the recipe's policy cannot be trained so; empty if it can."""
    return ""
