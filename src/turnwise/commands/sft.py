"""`turnwise sft`: supervised learning on verified demonstrations, or on the successes of a run."""

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from turnwise.assembly.call_tokens import choose_call_tokens
from turnwise.assembly.demonstration_samples import Verified, demonstrating, lessons_of, verified_lessons
from turnwise.assembly.success_samples import Successes, successes_of
from turnwise.assembly.task_requirements import require_playable
from turnwise.assembly.workbench import chat_of, load_model, open_workbench
from turnwise.chat import load_tokenizer, open_chat
from turnwise.commands.rescue_round import RescueRound, prepare_engine, rescue
from turnwise.config import Recipe
from turnwise.config.episodes import WARM_START_FIGURES
from turnwise.planning import UnsupportedArchitecture, check_sft_limits, find_sizes, memory_for
from turnwise.rollout.live_panel import shown
from turnwise.runtime.atomic_write import write_json
from turnwise.runtime.free_path import require_free
from turnwise.runtime.python_functions import NOTHING_GIVEN, Given
from turnwise.runtime.terminal import open_console
from turnwise.tasks.load import load
from turnwise.tasks.selection import across_families
from turnwise.training.model.model_folder import save_adapter, save_merged
from turnwise.training.model.policy import Policy
from turnwise.training.packing.samples import Sample
from turnwise.training.update.sft import SftPart, SftStep, fine_tune
from turnwise.types import Task

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
    rounds: Sequence[RescueRound] = ()


async def warm_up(
    recipe: Recipe,
    out: Path,
    *,
    run: Path | None = None,
    is_verified: bool = True,
    is_adapter: bool = False,
    on_step: Callable[[SftStep], None] = lambda step: None,
    on_part: Callable[[SftPart], None] = lambda part: None,
    on_note: Callable[[str], None] = lambda note: None,
    is_partial_kept: bool = False,
    given: Given = NOTHING_GIVEN,
) -> WarmStart:
    """Learn from the demonstrations of tasks.train, or from a run's successes; ValueError for user mistakes.

    `run` is the folder of that run; nothing is played then. If `is_verified`, each demonstration is first
    played with its real tools and dropped if it fails, and rounds of rescues follow; else its recorded
    results are used unchecked. If the work is cancelled while it learns and `is_partial_kept`, the model is
    written as it is after that step. `given`: functions that the recipe names and that cannot be imported.
    """
    require_free(out)
    if is_adapter and recipe.policy.tuning == "full":  # before hours of learning, not after
        raise ValueError("policy.tuning is 'full': every parameter is trained, there is no adapter")
    if recipe.environment and run is None:
        raise ValueError(
            f"environment is {recipe.environment!r}: demonstrations cannot be played in an environment; "
            "learn from the successes of a run in it (turnwise sft --from RUN)"
        )
    recipe = _sized(recipe)
    check_sft_limits(recipe)
    successes = None if run is None else _successes(recipe, run)
    is_rescuing = run is None and is_verified
    if is_rescuing:
        await prepare_engine(recipe)
    if successes is None:
        gathered = await _verified(recipe, given, is_verified=is_verified)
    else:
        gathered = Verified(successes.samples, {})
    model = load_model(recipe.model)
    choice = choose_call_tokens(recipe, model, chat_of(recipe))
    if choice.note:
        on_note(choice.note)
    policy = Policy(model, choice.recipe.policy, device=recipe.model.device, seed=recipe.seed)
    done: list[SftStep] = []
    is_stopped = threading.Event()

    def record(step: SftStep) -> None:
        done.append(step)
        on_step(step)

    learn = partial(_learn, policy, recipe=recipe, on_step=record, on_part=on_part, is_stopped=is_stopped)
    rounds: Sequence[RescueRound] = ()
    was_cancelled = False
    try:
        steps = await learn(gathered.lessons)
        if is_rescuing:
            rounds = await rescue(
                policy, choice.recipe, demonstrated(recipe), gathered, learn, on_note, given
            )
    except asyncio.CancelledError:
        if not is_partial_kept or not done:
            raise
        steps, was_cancelled = done, True
    tokenizer = load_tokenizer(recipe.model.path)
    if is_adapter:
        out = save_adapter(policy, tokenizer, out, base=recipe.model.path)
    else:
        out = save_merged(policy, tokenizer, out)
    figures = {
        "num_lessons": len(gathered.lessons),
        "num_own_tokens": sum(lesson.num_own_tokens for lesson in gathered.lessons),
        "dropped": dict(gathered.dropped),
        **({} if successes is None else {"from": {"run": str(run), **successes.counts()}}),
        "steps": [asdict(step) for step in steps],
        "rescues": [one.figures() for one in rounds],
    }
    write_json(out / METRICS, figures, is_private=False)  # a model's folder is often shared
    if was_cancelled:
        logger.warning("stopped after %d steps of learning: %s has the model of these steps", len(steps), out)
        raise asyncio.CancelledError
    return WarmStart(out, len(gathered.lessons), gathered.dropped, successes, steps, rounds)


def _sized(recipe: Recipe) -> Recipe:
    """The recipe with the micro-batch that a run of it would have."""
    if not recipe.lacks_sizes:
        return recipe
    try:
        return find_sizes(recipe, memory_for(recipe)).recipe
    except UnsupportedArchitecture as error:
        logger.warning("%s; defaults are used", error)
        return recipe


def _successes(recipe: Recipe, run: Path) -> Successes:
    tokenizer = open_chat(load_tokenizer(recipe.model.path)).tokenizer_json
    return successes_of(run, tokenizer)


async def _verified(recipe: Recipe, given: Given, *, is_verified: bool) -> Verified:
    tasks = demonstrated(recipe)
    if not is_verified:
        _require_results(recipe, tasks)
    gathered = await _gather(recipe, tasks, given, is_verified=is_verified)
    if not gathered.lessons:
        reasons = ", ".join(sorted(set(gathered.dropped.values())))
        raise ValueError(f"none of the {len(tasks)} demonstrations earned its outcome: {reasons}")
    return gathered


def demonstrated(recipe: Recipe) -> list[Task]:
    """Return the tasks of tasks.train whose demonstrations are learned. ValueError if none has one."""
    file = recipe.tasks.require_train()
    tasks = [task for task in load(file) if task.demonstration]
    if not tasks:
        raise ValueError(f"tasks.train: no task of {file} has a demonstration to learn from")
    return list(across_families(tasks, recipe.sft.num_tasks))


def _require_results(recipe: Recipe, tasks: Sequence[Task]) -> None:
    """Raise ValueError if a demonstration has no results, with the command that fills them in."""
    num_lacking = sum(task.lacks_results for task in tasks)
    if num_lacking:
        file = recipe.tasks.require_train()
        raise ValueError(
            f"--no-verify: {num_lacking} of {len(tasks)} demonstrations of {file} have no results; "
            f"`turnwise tasks check {file} --fill filled{file.suffix}` makes their calls and writes them. "
            "Without --no-verify the calls are made now"
        )


async def _gather(recipe: Recipe, tasks: Sequence[Task], given: Given, *, is_verified: bool) -> Verified:
    async with open_workbench(demonstrating(recipe), tasks, given=given) as bench:
        if not is_verified:
            return Verified(lessons_of(bench, tasks), {})
        require_playable(bench, tasks)
        collector = bench.collector(group_size=1)
        async with shown(collector.progress, len(tasks), open_console(stderr=True)):
            return await verified_lessons(collector, tasks)


async def _learn(
    policy: Policy,
    lessons: Sequence[Sample],
    recipe: Recipe,
    on_step: Callable[[SftStep], None],
    on_part: Callable[[SftPart], None],
    is_stopped: threading.Event,
) -> list[SftStep]:
    """Learn in a thread. A cancellation sets `is_stopped` and waits for the step to end."""
    tune = partial(fine_tune, on_step=on_step, on_part=on_part, is_stopped=is_stopped.is_set)
    learning = asyncio.ensure_future(asyncio.to_thread(tune, policy, lessons, recipe))
    try:
        return await asyncio.shield(learning)
    except asyncio.CancelledError:
        is_stopped.set()
        await asyncio.wait([learning])
        raise
    except FloatingPointError as error:
        raise ValueError(f"the update was not a number and was not made: {error}") from None
