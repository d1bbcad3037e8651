"""The recipe section for `turnwise train --engine skyrl`."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from turnwise.config.playing import STRICT


class SkyRLConfig(BaseModel):
    """The cluster of SkyRL's trainer on Ray; no other command reads it. See docs/scaling.md."""

    model_config = STRICT

    num_nodes: int = Field(default=1, ge=1)
    """Number of training machines."""
    gpus_per_node: int = Field(default=1, ge=1)
    """Training GPUs per machine."""
    colocate: bool = True
    """Whether sampling and training alternate on the same GPUs; false: engines have separate GPUs, which
    run.mode = 'async' needs."""
    num_engines: int | None = Field(default=None, ge=1)
    """Number of inference engines; none: as many as fit on the training GPUs."""
    gpus_per_engine: int = Field(default=1, ge=1)
    """Tensor parallelism of an engine, for models too large for one GPU."""
    num_players: int = Field(default=0, ge=0)
    """Ray workers that play the episodes, distributed over the nodes, with servers of their own; 0: the
    process of the trainer plays all episodes."""
    overrides: Mapping[str, Any] = Field(default_factory=dict)
    """Keys of SkyRL's config, e.g. `"trainer.flash_attn" = false`; they override translated keys."""
