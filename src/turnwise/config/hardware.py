"""The sections of a recipe on hardware: processes of one machine, and a cluster."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field

from turnwise.config.episodes import SECTION_CONFIG


class HardwareConfig(BaseModel):
    """Several processes with one GPU per process; see docs/guides/scaling.md."""

    model_config = SECTION_CONFIG

    num_processes: int = Field(default=1, ge=1)
    """Number of processes that share playing and training; `turnwise train --processes` and a launcher
    override it."""
    strategy: Literal["data_parallel", "fsdp2", "zero3"] = "data_parallel"
    """data_parallel: every process holds the whole policy; fsdp2: a part of every layer; zero3: the same with
    DeepSpeed (extra `deepspeed`), for policy.tuning = 'full'."""


class SkyRLConfig(BaseModel):
    """The cluster of SkyRL's trainer on Ray; no other command reads it. See docs/guides/scaling.md."""

    model_config = SECTION_CONFIG

    num_nodes: int = Field(default=1, ge=1)
    """Number of training machines."""
    gpus_per_node: int = Field(default=1, ge=1)
    """Training GPUs per machine."""
    colocate: bool = True
    """Whether sampling and training alternate on the same GPUs; false: engines have separate GPUs, which
    run.mode = 'async' needs."""
    num_engines: int | None = Field(default=None, ge=1)
    """Number of inference engines; unset: as many as fit on the training GPUs."""
    gpus_per_engine: int = Field(default=1, ge=1)
    """Tensor parallelism of an engine, for models too large for one GPU."""
    num_players: int = Field(default=0, ge=0)
    """Ray workers that play the episodes, distributed over the nodes, each with its own servers; 0: the
    process of the trainer plays all episodes."""
    overrides: Mapping[str, Any] = Field(default_factory=dict)
    """Keys of SkyRL's config, e.g. `"trainer.flash_attn" = false`; they override translated keys."""
