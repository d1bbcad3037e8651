"""`turnwise sft`: supervised learning on verified demonstrations, or on the successes of a run."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from turnwise.config import ModelConfig, Recipe, SftConfig
from turnwise.config.episodes import WARM_START_FIGURES
from turnwise.models.chat import load_tokenizer, open_chat
from turnwise.models.quantised import twin
from turnwise.rollout.live_panel import shown
from turnwise.run.demonstrations.lessons import Verified, demonstrator, lessons_of, verified_lessons
from turnwise.run.demonstrations.rescue_round import RescueRound, prepare_engine, rescue
from turnwise.run.demonstrations.successes import Successes, successes_of
from turnwise.run.demonstrations.warm_learning import WarmLearning
from turnwise.run.demonstrations.warm_probes import WarmProbes, publish, rest
from turnwise.run.health.readiness import Probe
from turnwise.setup.bench import Workbench, chat_of, load_model, open_workbench
from turnwise.setup.memory import UnsupportedArchitecture, check_sft_limits, find_sizes, memory_for
from turnwise.setup.requirements import require_playable
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.system.files.atomic_write import write_json
from turnwise.system.files.free_path import require_free
from turnwise.system.terminal import open_console
from turnwise.tasks.selection import across_families
from turnwise.training.policy.call_tokens import choose_call_tokens
from turnwise.training.policy.model_folder import save_adapter, save_merged
from turnwise.training.policy.policy import Policy
from turnwise.training.update.sft import SftPart, SftStep
from turnwise.types import Task
from turnwise.types.protocols import SleepingEngine, StartingEngine

logger = logging.getLogger(__name__)

METRICS = WARM_START_FIGURES
"""A file next to the weights: how many lessons, what was dropped and why, and each step's figures."""


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The result of `warm_up`."""

    folder: Path
    num_lessons: int
    dropped: Mapping[str, str]
    """By task id, why its demonstration was not used."""
    successes: Successes | None
    """The run's episodes if they were learned from; None if demonstrations were."""
    steps: Sequence[SftStep]
    """The steps on demonstrations or successes."""
    rounds: Sequence[RescueRound]
    probes: Sequence[Probe]
    why: str
    """Why learning from demonstrations ended."""

    @property
    def num_taken(self) -> int:
        """Demonstrations or successes that were taken, repeated ones included."""
        return sum(step.num_samples for step in self.steps)


async def warm_up(
    run: ResolvedRun,
    out: Path,
    *,
    source: Path | None = None,
    is_verified: bool = True,
    is_adapter: bool = False,
    on_step: Callable[[SftStep], None] = lambda step: None,
    on_part: Callable[[SftPart], None] = lambda part: None,
    on_note: Callable[[str], None] = lambda note: None,
    is_partial_kept: bool = False,
) -> WarmStart:
    """Learn from the demonstrations of tasks.train, or from a run's successes; ValueError for user mistakes.

    `source` is the folder of that run; nothing is played then. If `is_verified`, each demonstration is first
    played with its real tools and dropped if it fails, and rounds of rescues follow; else its recorded
    results are used unchecked. If the work is cancelled while it learns and `is_partial_kept`, the model is
    written as it is after that step.
    """
    recipe = run.recipe
    require_free(out)
    if is_adapter and recipe.policy.tuning == "full":  # before hours of learning, not after
        raise ValueError("policy.tuning is 'full': every parameter is trained, there is no adapter")
    if recipe.environment and source is None:
        raise ValueError(
            f"environment is {recipe.environment!r}: demonstrations cannot be played in an environment; "
            "learn from the successes of a run in it (turnwise sft --from RUN)"
        )
    recipe = _sized(recipe)
    run = replace(run, recipe=recipe)
    check_sft_limits(recipe)
    successes = None if source is None else _successes(recipe.model.path, source)
    async with contextlib.AsyncExitStack() as exits:
        bench, base = None, None
        if source is None and is_verified and _plays(recipe.sft, recipe.engine.kind):
            base = _shared_base(recipe.model, recipe.engine.kind)
            bench = await _open_player(run, exits, base)
        if successes is not None:
            gathered = Verified(successes.samples, {})
        else:
            gathered = await _verified(run, bench, is_verified=is_verified)
        model = load_model(recipe.model) if base is None else twin(base)
        choice = choose_call_tokens(recipe, model, chat_of(recipe.model))
        if choice.note:
            on_note(choice.note)
        if bench is not None:
            bench = replace(bench, run=replace(run, recipe=choice.recipe))
            await _wait_started(bench)
        policy = Policy(model, choice.recipe.policy, device=recipe.model.device, seed=recipe.seed)
        if bench is not None and isinstance(bench.engine, SleepingEngine):
            await publish(bench, policy, 0)
            await rest(bench)
        probes = _probes(bench, policy)
        learning = WarmLearning(policy, recipe, on_step, on_part)
        rounds: Sequence[RescueRound] = ()
        was_cancelled = False
        try:
            steps = await learning.learn_until_taught(gathered.lessons, probes, on_note)
            if bench is not None:
                rounds = await rescue(policy, bench, demonstrated(run), gathered, learning.learn, on_note)
        except asyncio.CancelledError:
            if not is_partial_kept or not learning.steps:
                raise
            steps, was_cancelled = learning.steps, True
    warm = WarmStart(
        folder=_save(policy, recipe.model.path, out, is_adapter=is_adapter),
        num_lessons=len(gathered.lessons),
        dropped=gathered.dropped,
        successes=successes,
        steps=steps,
        rounds=rounds,
        probes=learning.probes,
        why=learning.why,
    )
    figures = {
        "num_lessons": warm.num_lessons,
        "num_taken": warm.num_taken,
        "ended": warm.why,
        "num_own_tokens": sum(sample.num_own_tokens for sample in gathered.lessons),
        "dropped": dict(gathered.dropped),
        **({} if successes is None else {"from": {"run": str(source), **successes.counts()}}),
        "probes": [asdict(probe) for probe in warm.probes],
        "steps": [asdict(step) for step in warm.steps],
        "rescues": [one.figures() for one in rounds],
    }
    write_json(warm.folder / METRICS, figures, is_private=False)  # a model's folder is often shared
    if was_cancelled:
        logger.warning(
            "stopped after %d steps of learning: %s has the model of these steps", len(steps), warm.folder
        )
        raise asyncio.CancelledError
    return warm


def _save(policy: Policy, base: str, out: Path, *, is_adapter: bool) -> Path:
    tokenizer = load_tokenizer(base)
    if is_adapter:
        return save_adapter(policy, tokenizer, out, base=base)
    return save_merged(policy, tokenizer, out)


def _shared_base(model: ModelConfig, engine: str) -> Any:
    """The quantised model that an engine in this process and the policy share; None if they do not."""
    is_shared = model.quantisation != "none" and engine == "transformers"
    return load_model(model) if is_shared else None


async def _open_player(run: ResolvedRun, exits: contextlib.AsyncExitStack, base: Any) -> Workbench:
    """Open the workbench of probes and rescues; its engine starts while demonstrations are verified."""
    await prepare_engine(run.recipe)
    bench = await exits.enter_async_context(open_workbench(run, run.tasks_of("train"), model=base))
    if isinstance(bench.engine, StartingEngine):
        bench.engine.begin_start()
    return bench


async def _wait_started(bench: Workbench) -> None:
    """Wait before the policy is loaded: vLLM measures during its start how much of the GPU is free."""
    if isinstance(bench.engine, StartingEngine):
        await bench.engine.wait_started()


def _probes(bench: Workbench | None, policy: Policy) -> WarmProbes | None:
    if bench is None or not bench.recipe.sft.until_taught:
        return None
    return WarmProbes(bench, policy, bench.run.tasks_of("train"), demonstrated(bench.run))


def _plays(sft: SftConfig, engine: str) -> bool:
    """Whether the model plays during a warm start: for probes or rescues."""
    return (sft.until_taught or sft.rescue_rounds > 0) and engine != "scripted"


def _sized(recipe: Recipe) -> Recipe:
    """The recipe with the micro-batch that a run of it would have."""
    if not recipe.lacks_sizes:
        return recipe
    try:
        return find_sizes(recipe, memory_for(recipe.model.device, recipe.hardware.num_processes)).recipe
    except UnsupportedArchitecture as error:
        logger.warning("%s; defaults are used", error)
        return recipe


def _successes(model: str, source: Path) -> Successes:
    tokenizer = open_chat(load_tokenizer(model)).tokenizer_json
    return successes_of(source, tokenizer)


async def _verified(run: ResolvedRun, bench: Workbench | None, *, is_verified: bool) -> Verified:
    tasks = demonstrated(run)
    if not is_verified:
        _require_results(run, tasks)
    gathered = await _gather(run, tasks, bench, is_verified=is_verified)
    if not gathered.lessons:
        reasons = ", ".join(sorted(set(gathered.dropped.values())))
        raise ValueError(f"none of the {len(tasks)} demonstrations earned its outcome: {reasons}")
    return gathered


def demonstrated(run: ResolvedRun) -> list[Task]:
    """Return the tasks of tasks.train whose demonstrations are learned. ValueError if none has one."""
    tasks = [task for task in run.tasks_of("train") if task.demonstration]
    if not tasks:
        raise ValueError(f"tasks.train: no task{_of_file(run)} has a demonstration to learn from")
    return list(across_families(tasks, run.recipe.sft.num_tasks))


def _require_results(run: ResolvedRun, tasks: Sequence[Task]) -> None:
    """Raise ValueError if a demonstration has no results, with the command that fills them in."""
    num_lacking = sum(task.lacks_results for task in tasks)
    if num_lacking:
        file = run.recipe.tasks.train or Path("tasks.jsonl")
        raise ValueError(
            f"--no-verify: {num_lacking} of {len(tasks)} demonstrations{_of_file(run)} have no results; "
            f"`turnwise tasks check {file} --fill filled{file.suffix}` makes their calls and writes them. "
            "Without --no-verify the calls are made now"
        )


def _of_file(run: ResolvedRun) -> str:
    file = run.recipe.tasks.train
    return "" if file is None else f" of {file}"


async def _gather(
    run: ResolvedRun, tasks: Sequence[Task], bench: Workbench | None, *, is_verified: bool
) -> Verified:
    async with contextlib.AsyncExitStack() as exits:
        if bench is None:
            bench = await exits.enter_async_context(open_workbench(run.demonstrated(), tasks))
        if not is_verified:
            return Verified(lessons_of(bench, tasks), {})
        require_playable(bench, tasks)
        collector = demonstrator(bench, tasks)
        async with shown(collector.progress, len(tasks), open_console(stderr=True)):
            return await verified_lessons(collector, tasks)
