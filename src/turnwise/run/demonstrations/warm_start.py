"""The warm start of a run: supervised learning on the demonstrations, before the first step of RL."""

import gc

import torch

from turnwise.records.folder import RunFolder
from turnwise.run.demonstrations.sft_progress import SftProgress
from turnwise.run.demonstrations.warm_up import WarmStart, warm_up
from turnwise.run.screen.screen import Screen
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.system.stopping import Stopping
from turnwise.system.terminal import counted
from turnwise.training.update.sft import SftPart


class WarmStartStopped(Exception):
    """The run was asked to stop during its warm start, which begins again when the run starts over."""

    def __init__(self, stopping: Stopping) -> None:
        super().__init__(f"{stopping.why}, in the warm start: nothing of it is saved, it begins again")


async def warm_started(
    run: ResolvedRun, folder: RunFolder, screen: Screen, stopping: Stopping
) -> ResolvedRun:
    """Return the run with the warmed-up model, which is learned now unless the run has it already.

    The run's folder keeps the model, and its stored recipe names it: a resumed run and an export read it.
    """
    model = folder.warm_model
    if not model.exists():
        screen.say("warm start: learning from the demonstrations of tasks.train")
        progress = SftProgress(screen.say, "warm start, step")
        learning = warm_up(
            run,
            model,
            on_step=progress.step,
            on_part=lambda part: _follow(part, progress, stopping),
            on_note=screen.say,
        )
        warm = await stopping.unless_asked(
            learning, lambda why: screen.say(f"{why}: ending the warm start", "yellow")
        )
        if warm is None:
            raise WarmStartStopped(stopping)
        folder.keep()
        _report(warm, screen)
        gc.collect()
        torch.cuda.empty_cache()  # a no-op without CUDA; an engine in another process needs the memory
    else:
        screen.say(f"the warm start is done: going on from {model}")
    warmed = run.changed({"model.path": str(model.resolve())})
    folder.change_recipe(warmed.recipe)
    return warmed


def _follow(part: SftPart, progress: SftProgress, stopping: Stopping) -> None:
    """Show the progress, or end the thread that learns: a step may take minutes, and nobody can cancel it."""
    if stopping.why:
        raise WarmStartStopped(stopping)
    progress.part(part)


def _report(warm: WarmStart, screen: Screen) -> None:
    for task_id, reason in list(warm.dropped.items())[:5]:
        screen.say(f"dropped {task_id}: {reason}")
    screen.say(
        f"warm start: {warm.num_lessons} demonstrations, {len(warm.dropped)} dropped, {warm.num_taken} taken "
        f"in {counted(len(warm.steps), 'step')}, loss {warm.steps[0].loss:.4f} → {warm.steps[-1].loss:.4f}; "
        f"it ended because {warm.why}"
    )
