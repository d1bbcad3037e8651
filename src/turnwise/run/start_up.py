"""The start of a run: the engine's process and the policy's weights come up at the same time."""

import asyncio
import time
from typing import Any

from turnwise.config import Recipe
from turnwise.run.screen.screen import Screen
from turnwise.setup.bench import load_model
from turnwise.types.protocols import Engine, StartingEngine


class Phases:
    """Logs every phase of the start with its seconds; with vLLM, which starts slowly, also on the screen."""

    def __init__(self, screen: Screen, recipe: Recipe) -> None:
        self._screen = screen
        self._is_shown = recipe.engine.kind == "vllm"
        self._began = self._since = time.perf_counter()

    def ended(self, what: str) -> None:
        now = time.perf_counter()
        took, self._since = now - self._since, now
        words = f"started: {what} in {took:.1f} s, {now - self._began:.1f} s in all"
        self._screen.say(words, is_shown=self._is_shown)


async def load_during_start(engine: Engine, recipe: Recipe, phases: Phases) -> Any:
    """Load the policy's model while an engine with a process of its own starts.

    The weights stay in the CPU's memory until the engine runs, because vLLM measures during its start how
    much of the GPU is free. A quantised model is loaded onto the GPU directly, so it waits for the engine.
    """
    if not isinstance(engine, StartingEngine):
        return load_model(recipe.model)
    engine.begin_start()
    phases.ended("imports of the engine")
    await asyncio.sleep(0)  # lets the thread that starts the engine begin; loading blocks this one
    model = load_model(recipe.model) if recipe.model.quantisation == "none" else None
    phases.ended("weights of the policy")
    await engine.wait_started()
    phases.ended("engine")
    return load_model(recipe.model) if model is None else model
