"""The warm start of a run: supervised learning on the demonstrations, before the first step of RL."""

import gc

import torch

from turnwise.commands.sft import WarmStart, warm_up
from turnwise.commands.sft_progress import SftProgress
from turnwise.config import Recipe, override_recipe
from turnwise.run.screen import Screen
from turnwise.run.stopping import Stopping
from turnwise.runtime.python_functions import Given
from turnwise.runtime.terminal import counted
from turnwise.tracking.folder import RunFolder
from turnwise.training.update.sft import SftPart


class WarmStartStopped(Exception):
    """The run was asked to stop during its warm start, which begins again when the run starts over."""


async def with_warm_start(
    recipe: Recipe, folder: RunFolder, screen: Screen, stopping: Stopping, given: Given
) -> Recipe:
    """Return the recipe of the warmed-up model, which is learned now unless the run has it already.

    The run's folder keeps the model, and its stored recipe names it: a resumed run and an export read it.
    """
    model = folder.warm_model
    if not model.exists():
        screen.say("warm start: learning from the demonstrations of tasks.train")
        progress = SftProgress(screen.say, "warm start, step")
        warm = await warm_up(
            recipe,
            model,
            on_step=progress.step,
            on_part=lambda part: _follow(part, progress, stopping),
            on_note=lambda note: _tell(note, screen, stopping),
            given=given,
        )
        folder.keep()
        _report(warm, screen)
        gc.collect()
        torch.cuda.empty_cache()  # a no-op without CUDA; an engine in another process needs the memory
    else:
        screen.say(f"the warm start is done: going on from {model}")
    warmed = override_recipe(recipe, [f"model.path={model.resolve()}"])
    folder.change_recipe(warmed)
    return warmed


def _follow(part: SftPart, progress: SftProgress, stopping: Stopping) -> None:
    _heed(stopping, f"in step {part.step + 1} of {part.num_steps} of the warm start")
    progress.part(part)


def _tell(note: str, screen: Screen, stopping: Stopping) -> None:
    screen.say(note)
    _heed(stopping, "in the warm start")


def _heed(stopping: Stopping, where: str) -> None:
    """End a warm start that was asked to stop: at once, since nothing of it is kept before its end."""
    if stopping.why:
        raise WarmStartStopped(f"{stopping.why}, {where}: nothing of it is saved, it begins again")


def _report(warm: WarmStart, screen: Screen) -> None:
    for task_id, reason in list(warm.dropped.items())[:5]:
        screen.say(f"dropped {task_id}: {reason}")
    screen.say(
        f"warm start: {warm.num_lessons} demonstrations, {len(warm.dropped)} dropped, {warm.num_taken} taken "
        f"in {counted(len(warm.steps), 'step')}, loss {warm.steps[0].loss:.4f} → {warm.steps[-1].loss:.4f}; "
        f"it ended because {warm.why}"
    )
