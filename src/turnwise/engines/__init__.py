"""Where completions come from; each engine's module is imported only when it is used."""

from importlib import import_module
from typing import Any

ENGINES = {
    "transformers": "turnwise.engines.transformers:TransformersEngine",
    "vllm": "turnwise.engines.vllm:VllmEngine",
    "remote": "turnwise.engines.remote:RemoteEngine",
    "scripted": "turnwise.engines.scripted:ScriptedEngine",
    "openai": "turnwise.rollout.players.openai:OpenAIEndpoint",
}
"""Engine name to `module:class`. All implement `protocols.Engine` except `openai`, which takes messages."""


def engine_class(name: str) -> Any:
    """Import and return the class of the engine `name`; ValueError if there is none."""
    if name not in ENGINES:
        raise ValueError(f"engine {name!r} is not one of {', '.join(sorted(ENGINES))}")
    module, _, attribute = ENGINES[name].partition(":")
    return getattr(import_module(module), attribute)
