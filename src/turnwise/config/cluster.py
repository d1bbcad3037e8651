"""The section of a recipe that says what `turnwise train --engine skyrl` runs on."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from turnwise.config.playing import STRICT


class SkyRLConfig(BaseModel):
    """SkyRL's trainer on Ray; nothing else reads it. See docs/scaling.md."""

    model_config = STRICT

    num_nodes: int = Field(default=1, ge=1)
    """Machines that learn."""
    gpus_per_node: int = Field(default=1, ge=1)
    """GPUs that learn on each of them."""
    colocate: bool = True
    """Whether sampling and learning take turns on the same GPUs; false: engines have GPUs of their own, which
    run.mode = 'async' needs."""
    num_engines: int | None = Field(default=None, ge=1)
    """Inference engines; none: as many as the learning GPUs hold."""
    gpus_per_engine: int = Field(default=1, ge=1)
    """Tensor parallelism of each engine, for models too large for one GPU."""
    num_players: int = Field(default=0, ge=0)
    """Ray workers that play the episodes, each with servers of its own, spread over the nodes; 0: the
    trainer's own process plays them all."""
    overrides: Mapping[str, Any] = Field(default_factory=dict)
    """Keys of SkyRL's own config, as `"trainer.flash_attn" = false`; they win over what was translated."""
