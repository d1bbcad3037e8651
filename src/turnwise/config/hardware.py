"""The section of a recipe that says how many processes of a machine train it, and what each of them holds."""

from typing import Literal

from pydantic import BaseModel, Field

from turnwise.config.playing import STRICT


class HardwareConfig(BaseModel):
    """Several processes, a GPU each; see docs/scaling.md."""

    model_config = STRICT

    num_processes: int = Field(default=1, ge=1)
    """Ranks that play and learn, each a share; `turnwise train --processes` and what launches them win."""
    strategy: Literal["data_parallel", "fsdp2", "zero3"] = "data_parallel"
    """data_parallel: every process holds all of the policy; fsdp2: a part of each layer; zero3: the same by
    DeepSpeed (extra `deepspeed`), for policy.tuning = 'full'."""
