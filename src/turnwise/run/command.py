"""The life of a training run, from the command and from Python: begin or resume, train, report its end."""

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from turnwise.config import Recipe, RunConfig
from turnwise.engines.vllm_helper import begin_early
from turnwise.models.devices import choose_device
from turnwise.records.failed_starts import Starting, recording_failed_start
from turnwise.records.folder import RunFolder
from turnwise.rollout.collector import CollectionFailed
from turnwise.run.demonstrations.warm_start import WarmStartStopped, warm_started
from turnwise.run.ending import ending_of, recording_failures
from turnwise.run.loop import OnStep, RunEnd, train
from turnwise.run.opening import opened
from turnwise.run.progress import RunProgress
from turnwise.run.resumption import resume_command
from turnwise.run.screen.panel import Panel
from turnwise.run.screen.screen import Quiet, Screen
from turnwise.run.screen.summary import print_summary, summarise_run
from turnwise.run.start_up import open_run
from turnwise.setup.request import RunRequest
from turnwise.system.files.atomic_write import write_json
from turnwise.system.ranks import ALONE, Ranks, is_first
from turnwise.system.stopping import Stopping
from turnwise.system.terminal import open_console
from turnwise.tasks.curriculum import CurriculumState
from turnwise.types.protocols import EngineDown

SWITCH_SECONDS, SWITCH_SECONDS_ON_GPU = 1e-3, 1e-5
"""Python's thread switch interval in asynchronous runs, where an update and episodes share the interpreter.
torch releases the lock in each of the thousands of operations of a pass and then waits up to this long to get
it back; Python's default is 5 ms. Operations on a CPU take longer, so fewer switches are better there."""


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """The run's folder, and whether all steps are done; if not, it can be resumed."""

    path: Path
    is_finished: bool


async def train_run(
    request: RunRequest,
    recipe: Recipe,
    *,
    from_start: bool = False,
    ranks: Ranks = ALONE,
    show: type[Screen] | None = None,
    stopping: Stopping | None = None,
    on_step: OnStep | None = None,
) -> TrainedRun:
    """The life of a training run, from a request whose `recipe` was read to its end.

    Progress is shown as a panel on a terminal and as plain lines elsewhere, unless `show` is given. Only the
    first of several ranks prints and writes. `from_start`: a resumed run that saved nothing starts over.
    `stopping` lets a caller ask the run to stop. `on_step` is called after every step.
    """
    started = time.perf_counter()
    stopping = stopping or Stopping()
    begin_early(recipe)
    with (
        _recording_failed_start(request, recipe.run, ranks) as starting,
        opened(request, recipe, ranks, from_start=from_start) as (folder, resolved),
    ):
        starting.folder = folder
        screen = _screen(resolved.recipe.run, show, ranks)
        with recording_failures(folder, stopping, ranks), stopping.listening(screen.stopping):
            screen.say(f"run {folder.path}")
            if resolved.sizes_note:
                screen.say(resolved.sizes_note)
            if resolved.recipe.run.mode == "async":
                _take_turns(resolved.recipe.model.device)
            folder.start_trackers()
            try:
                is_warm = resolved.recipe.run.warm_start
                run = await warm_started(resolved, folder, screen, stopping) if is_warm else resolved
                with screen.showing():
                    async with open_run(run, folder, screen, ranks) as training:
                        ended = await train(training, stopping, on_step)
            except WarmStartStopped as stopped:
                folder.keep()
                begun = RunProgress(0, CurriculumState(seed=resolved.recipe.seed))
                ended = RunEnd(begun, str(stopped), None, None)
            except (CollectionFailed, EngineDown) as error:
                hint = f"\nonce that is fixed, resume with: {resume_command(folder)}"
                raise CollectionFailed(f"{error}{hint if folder.is_kept else ''}") from error
            if is_first(ranks):
                _finish(ended, folder, screen, time.perf_counter() - started)
        return TrainedRun(folder.path, not ended.why)


def _recording_failed_start(
    request: RunRequest, settings: RunConfig, ranks: Ranks
) -> AbstractContextManager[Starting]:
    """Record a start that fails; of several processes only in the first. A resumed run has its own record."""
    if request.run is not None or not is_first(ranks):
        return nullcontext(Starting())
    return recording_failed_start(
        settings.folder,
        recipe_file=request.recipe_file,
        name=settings.name or request.name,
        command=request.command,
    )


def _take_turns(device: str) -> None:
    is_cpu = choose_device(device) == "cpu"
    sys.setswitchinterval(SWITCH_SECONDS if is_cpu else SWITCH_SECONDS_ON_GPU)


def _screen(run: RunConfig, show: type[Screen] | None, ranks: Ranks) -> Screen:
    console = open_console(quiet=not is_first(ranks))
    if not is_first(ranks):
        show = Quiet
    return (show or (Panel if console.is_terminal else Screen))(console, run)


def _finish(ended: RunEnd, folder: RunFolder, screen: Screen, seconds: float) -> None:
    summary = summarise_run(ended, folder, seconds)
    write_json(folder.summary, summary)
    print_summary(ended, summary, folder, screen)
    for place in folder.trackers.places:
        screen.say(place)
    folder.end(ending_of(ended))
    screen.ended(summary)
