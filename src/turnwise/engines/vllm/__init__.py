"""vLLM as an engine: `engine` is when things happen, `calls` what vLLM is told, the rest is inside it."""

from turnwise.engines.vllm.calls import VllmSettings
from turnwise.engines.vllm.engine import VllmEngine

__all__ = ["VllmEngine", "VllmSettings"]
