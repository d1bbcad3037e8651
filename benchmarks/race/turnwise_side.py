"""turnwise's side of the comparison: `python benchmarks/race/turnwise_side.py TERMS.json`; versus_trl.py
starts it.

A run like that of `turnwise train`, with trajectories on disk; only the engine also records when it samples.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from terms import Laps, Terms, peak_mib, read_terms, tell

from turnwise.config import Recipe, parse_settings, read_recipe
from turnwise.records.folder import RunFolder
from turnwise.rollout.collection_counts import Progress
from turnwise.run.health.health import Alarm
from turnwise.run.loop import train
from turnwise.run.screen.screen import Figures, Quiet
from turnwise.run.start_up import open_run
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import resolve
from turnwise.system.stopping import Stopping


class Telling(Quiet):
    """Prints each step's figures."""

    def __init__(self, recipe: Recipe, terms: Terms) -> None:
        super().__init__(Console(stderr=True), recipe.run)
        self.laps = Laps(terms)

    @contextlib.asynccontextmanager
    async def playing(self, progress: Progress, num_episodes: int) -> AsyncIterator[None]:
        with self.laps.playing.running():
            yield

    def learned(self, step: int, figures: Figures, alarms: Sequence[Alarm], skipped: str) -> None:
        super().learned(step, figures, alarms, skipped)
        self.laps.end(
            num_episodes=figures["episodes/finished"],
            success=figures["success/rate"],
            calls=figures["tools/calls"],
            tokens=figures["length/own_tokens"],
        )


def recipe_of(terms: Terms) -> Recipe:
    keys = {
        "model.path": terms.model,
        "model.dtype": terms.dtype,
        "model.device": terms.device,
        "engine.kind": terms.backend,
        "engine.max_batch": terms.num_episodes,
        "engine.vllm.cache_gib": terms.cache_gib,
        "engine.adapters": str(not terms.is_merged).lower(),
        "tools.mcp": terms.mcp,
        "tools.max_result_tokens": terms.result_tokens,
        "tasks.train": terms.tasks,
        "rollout.group_size": terms.group_size,
        "rollout.num_parallel_episodes": terms.num_episodes,
        "rollout.tokens_per_turn": terms.tokens_per_turn,
        "rollout.tokens_per_episode": terms.prompt_tokens + terms.completion_tokens,
        "rollout.dynamic_sampling": "false",  # TRL has no counterpart
        "policy.tuning": terms.tuning,
        # As in TRL: vLLM's log-probs are corrected for; others count as the trainer's.
        "algorithm.correction": "decoupled" if terms.backend == "vllm" else "none",
        "optimizer.learning_rate": terms.learning_rate,
        "run.num_steps": terms.num_steps,
        "run.tasks_per_step": terms.tasks_per_step,
        "run.checkpoint_every": terms.num_steps,
        "evaluation.before_and_after": "false",
    }
    return read_recipe(None, parse_settings([f"{key}={value}" for key, value in keys.items()]))


async def race(terms: Terms) -> None:
    recipe = recipe_of(terms)
    screen = Telling(recipe, terms)
    with RunFolder.create(Path(terms.folder), "turnwise", recipe, is_dated=False) as folder:
        async with open_run(resolve(RunRequest(recipe), recipe, recipe.played_splits), folder, screen) as run:
            engine: Any = run.bench.engine
            complete = engine.complete

            @functools.wraps(complete)
            async def noted(*arguments: Any) -> Any:
                with screen.laps.sampling.running():
                    return await complete(*arguments)

            engine.complete = noted
            screen.laps.begin()
            await train(run, Stopping())
            held = await engine.memory() if terms.backend == "vllm" else {}
        engine_mib = held.get("memory/engine_reserved_gib", 0) * 1024
        tell(learned=str(folder.path), peak_mib=peak_mib(terms.device) + engine_mib)


if __name__ == "__main__":
    asyncio.run(race(read_terms()))
