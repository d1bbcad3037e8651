"""The recipe section for the number of training processes and how the policy is sharded."""

from typing import Literal

from pydantic import BaseModel, Field

from turnwise.config.playing import STRICT


class HardwareConfig(BaseModel):
    """Several processes with one GPU per process; see docs/scaling.md."""

    model_config = STRICT

    num_processes: int = Field(default=1, ge=1)
    """Number of processes that share playing and training; `turnwise train --processes` and a launcher
    override it."""
    strategy: Literal["data_parallel", "fsdp2", "zero3"] = "data_parallel"
    """data_parallel: every process holds the whole policy; fsdp2: a part of every layer; zero3: the same with
    DeepSpeed (extra `deepspeed`), for policy.tuning = 'full'."""
