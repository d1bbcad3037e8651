"""The effect of sharding on a memory plan: the share of one process, and the weights that it gathers."""

from dataclasses import dataclass
from typing import Any

from turnwise.config import HardwareConfig

_SHARDED = ("policy: weights", "policy: adapters", "gradients", "optimizer", "reference")
"""Parts of a plan that fsdp2 and zero3 divide between processes."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """How the policy is divided between processes."""

    num_processes: int
    strategy: str

    @property
    def is_on(self) -> bool:
        return self.strategy != "data_parallel"

    def share(self, name: str, num_bytes: int) -> int:
        """The bytes of this part that one process holds."""
        return -(-num_bytes // self.num_processes) if self.is_on and name in _SHARDED else num_bytes

    def why(self, name: str, why: str) -> str:
        if not self.is_on or self.num_processes == 1 or name not in _SHARDED:
            return why
        return f"{why}; 1/{self.num_processes} of them ({self.strategy})"


def sharding_of(hardware: HardwareConfig) -> Sharding:
    return Sharding(hardware.num_processes, hardware.strategy)


def gathered_bytes(model: Any, plain_bytes: int) -> int:
    """Weights gathered at one time: embeddings and head, the current layer and the next one."""
    num_layers = max(int(model.config.get_text_config().num_hidden_layers), 1)
    outside = {model.get_input_embeddings().weight, model.get_output_embeddings().weight}
    outside_bytes = sum(weight.numel() * weight.element_size() for weight in outside)
    return int(outside_bytes + 2 * (plain_bytes - outside_bytes) // num_layers)
