"""Takes what one process would hold, gives what each of several holds, and what it gathers for a while."""

from dataclasses import dataclass
from typing import Any

from turnwise.config import Recipe

_SPREAD = ("policy: weights", "policy: adapters", "gradients", "optimizer", "reference")
"""Parts of a plan that are spread over processes where hardware.strategy says so."""


@dataclass(frozen=True, slots=True)
class Spreading:
    """Over how many processes, and how."""

    num_processes: int
    strategy: str

    @property
    def is_on(self) -> bool:
        return self.strategy != "data_parallel"

    def of(self, name: str, num_bytes: int) -> int:
        """What one process has of a part of the plan."""
        return -(-num_bytes // self.num_processes) if self.is_on and name in _SPREAD else num_bytes

    def why(self, name: str, why: str) -> str:
        if not self.is_on or self.num_processes == 1 or name not in _SPREAD:
            return why
        return f"{why}; 1/{self.num_processes} of them ({self.strategy})"


def spreading(recipe: Recipe) -> Spreading:
    return Spreading(recipe.hardware.num_processes, recipe.hardware.strategy)


def gathered_bytes(model: Any, plain_bytes: int) -> int:
    """Whole weights at a time: all that stands outside of layers, the layer that runs and the next one."""
    num_layers = max(int(model.config.get_text_config().num_hidden_layers), 1)
    outside = {model.get_input_embeddings().weight, model.get_output_embeddings().weight}
    outside_bytes = sum(each.numel() * each.element_size() for each in outside)
    return int(outside_bytes + 2 * (plain_bytes - outside_bytes) // num_layers)
