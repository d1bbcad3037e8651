"""The vLLM engine: `engine` decides when to call vLLM, `calls` makes the calls, the rest runs inside vLLM."""

from turnwise.engines.vllm.calls import VllmSettings
from turnwise.engines.vllm.engine import VllmEngine

__all__ = ["VllmEngine", "VllmSettings"]
