"""The start of a training run: servers, engine and trainer, whose weights load while the engine starts."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from turnwise.config import ModelConfig, Recipe
from turnwise.models.quantised import twin
from turnwise.records.folder import RunFolder
from turnwise.rollout.rank_exchange import gather_from_ranks
from turnwise.run.demonstrations.lessons import demonstrator, verified_lessons
from turnwise.run.health.gpu import GpuMonitor, cuda_reader
from turnwise.run.screen.screen import Screen
from turnwise.run.task_digests import keep_digests
from turnwise.run.training_run import LESSONS_PER_STEP, TrainingRun
from turnwise.setup.bench import Workbench, load_model, open_workbench
from turnwise.setup.memory import check_device_limits
from turnwise.setup.requirements import require, require_playable, training_problems
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.system.files.atomic_write import write_atomically
from turnwise.system.garbage import frozen_garbage
from turnwise.system.ranks import ALONE, Ranks, is_first
from turnwise.tasks.live_conflicts import check_worlds
from turnwise.training.packing.samples import Sample
from turnwise.training.policy.call_tokens import choose_call_tokens
from turnwise.training.policy.policy import Policy
from turnwise.training.sharding.strategies import STRATEGIES
from turnwise.training.update.trainer import Trainer
from turnwise.types import Task
from turnwise.types.protocols import Engine, StartingEngine


class Phases:
    """Logs every phase of the start with its seconds; with vLLM, which starts slowly, also on the screen."""

    def __init__(self, screen: Screen, *, is_shown: bool) -> None:
        self._screen = screen
        self._is_shown = is_shown
        self._began = self._since = time.perf_counter()

    def ended(self, what: str) -> None:
        now = time.perf_counter()
        took, self._since = now - self._since, now
        words = f"started: {what} in {took:.1f} s, {now - self._began:.1f} s in all"
        self._screen.say(words, is_shown=self._is_shown)


async def load_during_start(engine: Engine, config: ModelConfig, phases: Phases) -> Any:
    """Load the policy's model while an engine that runs in another process starts.

    The weights stay in the CPU's memory until the engine runs, because vLLM measures during its start how
    much of the GPU is free. A quantised model is loaded onto the GPU directly, so it waits for the engine.
    """
    if not isinstance(engine, StartingEngine):
        return load_model(config)
    engine.begin_start()
    phases.ended("imports of the engine")
    await asyncio.sleep(0)  # lets the thread that starts the engine begin; loading blocks this one
    model = load_model(config) if config.quantisation == "none" else None
    phases.ended("weights of the policy")
    await engine.wait_started()
    phases.ended("engine")
    return load_model(config) if model is None else model


@contextlib.asynccontextmanager
async def open_run(
    run: ResolvedRun, folder: RunFolder, screen: Screen, ranks: Ranks = ALONE
) -> AsyncIterator[TrainingRun]:
    """Open a run: start the servers and load the model twice, for sampling and for training.

    A quantised base is loaded once if the engine runs in this process: engine and policy then share it, with
    separate adapters. Raises ValueError for the user's mistakes.
    """
    recipe, tasks = run.recipe, run.tasks_of("train")
    phases = Phases(screen, is_shown=recipe.engine.kind == "vllm")
    recipe.rollout.require_exploration()
    screen.started(recipe, len(tasks))
    measured = run.measured_tasks()
    check_worlds((task for split in measured.values() for task in split), run.servers.live)
    base = None
    if recipe.model.quantisation != "none" and recipe.engine.kind == "transformers":
        base = load_model(recipe.model)
    async with open_workbench(
        run, tasks, model=base, num_workers=ranks.count, replies=folder.user_replies
    ) as bench:
        require(training_problems(recipe, tasks))
        for played in (tasks, *measured.values()):
            require_playable(bench, played)
        lessons: Sequence[Sample] = ()
        if recipe.imitation.weight and recipe.imitation.lessons == "demonstrations":
            # verified by the first rank alone: a server fault on another rank would give it other lessons
            lessons, *_ = await gather_from_ranks(ranks, _lessons(bench, tasks, screen, ranks), "steps")
        tokenizer = bench.chat.tokenizer_json
        if tokenizer and folder.is_written_here and not folder.tokenizer.exists():
            write_atomically(folder.tokenizer, tokenizer.encode())
        phases.ended(f"servers, {len(bench.pool.tools)} tools")
        check_device_limits(recipe)
        model = await load_during_start(bench.engine, recipe.model, phases) if base is None else twin(base)
        choice = choose_call_tokens(recipe, model, bench.chat)
        run = replace(run, recipe=choice.recipe)
        if folder.is_written_here:
            folder.change_recipe(run.recipe)
            for line in keep_digests(folder.path, {"training": tasks, **measured}):
                screen.say(line, "yellow", level=logging.WARNING)
        if choice.note:
            screen.say(choice.note)
        trainer = new_trainer(run.recipe, model, ranks)
        phases.ended("trainer")
        with GpuMonitor(cuda_reader()) as gpu:
            opened = TrainingRun(run, folder, bench, trainer, lessons, screen, ranks, gpu)
            folder.keep()  # from here on there is something to resume, or to look into
            with contextlib.closing(opened), frozen_garbage():
                yield opened


async def _lessons(bench: Workbench, tasks: Sequence[Task], screen: Screen, ranks: Ranks) -> Sequence[Sample]:
    """The demonstrations that steps will imitate, verified by playing them with their real tools."""
    if not is_first(ranks):
        return ()
    imitation = bench.recipe.imitation
    shown = [task for task in tasks if task.demonstration][: imitation.num_steps * LESSONS_PER_STEP]
    verified = await verified_lessons(demonstrator(bench, shown), shown)
    if not verified.lessons:
        why = ", ".join(sorted(set(verified.dropped.values()))) or "there are none"
        raise ValueError(f"imitation.weight: no demonstration of tasks.train earned its outcome: {why}")
    screen.say(f"imitating {len(verified.lessons)} verified demonstrations, {len(verified.dropped)} dropped")
    return verified.lessons


def new_trainer(recipe: Recipe, model: Any, ranks: Ranks) -> Trainer:
    """The trainer of this model, on the recipe's device or devices."""
    shards = STRATEGIES[recipe.hardware.strategy]
    policy = Policy(
        model,
        recipe.policy,
        value=recipe.value if recipe.algorithm.advantage == "gae" else None,
        # a sharded policy moves to the device layer by layer: no rank has room for all of it
        device=recipe.model.device if shards is None else None,
        seed=recipe.seed,
    )
    if shards is not None:
        policy.shard(shards, recipe.model.device)
    return Trainer(policy, recipe, ranks)
