"""The sizes of a run that its memory limits: recipe keys that a memory plan finds where they are unset."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """The values of these keys, set or found."""

    tokens_per_microbatch: int = 16_384
    gradient_checkpointing: bool | int = False
    """All layers, none, or the number of layers that are recomputed."""
    cache_tokens: int = 200_000
    max_batch: int = 64
    num_parallel_episodes: int = 64
    gpu_memory_utilization: float = 0.3
    """Of vLLM; without effect if `cache_gib` is not None."""
    cache_gib: float | None = None
    """Of vLLM."""
    offload: bool = False
    """Whether the optimizer is in host memory."""


DEFAULT_SIZES = Sizes()
"""Sizes of a run whose memory is not planned; on a CPU, where sampling more at once gains nothing, the most
that a plan finds."""
