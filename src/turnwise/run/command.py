"""`turnwise train`: start or resume the run of a folder and report how it ended."""

import sys
import time

from turnwise.config import Recipe
from turnwise.engines.vllm_helper import begin_early
from turnwise.models.devices import choose_device
from turnwise.records.folder import RunFolder
from turnwise.rollout.collector import CollectionFailed
from turnwise.run.demonstrations.warm_start import WarmStartStopped, with_warm_start
from turnwise.run.ending import ending_of, recording_failures
from turnwise.run.loop import OnStep, RunEnd, train
from turnwise.run.progress import RunProgress
from turnwise.run.resumption import resume_command
from turnwise.run.screen.panel import Panel
from turnwise.run.screen.screen import Quiet, Screen
from turnwise.run.screen.summary import print_summary, summarise_run
from turnwise.run.training_run import open_run
from turnwise.setup.sizes import with_sizes_found
from turnwise.system.files.atomic_write import write_json
from turnwise.system.python_functions import NOTHING_GIVEN, Given
from turnwise.system.ranks import ALONE, Ranks, is_first
from turnwise.system.stopping import Stopping
from turnwise.system.terminal import open_console
from turnwise.tasks.curriculum import CurriculumState
from turnwise.tasks.load import load
from turnwise.types.protocols import EngineDown

SWITCH_SECONDS, SWITCH_SECONDS_ON_GPU = 1e-3, 1e-5
"""Python's thread switch interval in asynchronous runs, where an update and episodes share the interpreter.
torch releases the lock in each of the thousands of operations of a pass and then waits up to this long to get
it back; Python's default is 5 ms. Operations on a CPU take longer, so fewer switches are better there."""


async def train_in(
    folder: RunFolder,
    show: type[Screen] | None = None,
    ranks: Ranks = ALONE,
    *,
    stopping: Stopping | None = None,
    given: Given = NOTHING_GIVEN,
    on_step: OnStep | None = None,
) -> bool:
    """Train until the run ends; True if all steps are done. If not, the folder can be resumed.

    Progress is shown as a panel on a terminal and as plain lines elsewhere, unless `show` is given. Only the
    first of several ranks prints and writes. `stopping` lets a caller ask the run to stop. `given`: functions
    that the recipe names and that cannot be imported. `on_step` is called after every step.
    """
    started = time.perf_counter()
    recipe = folder.recipe
    if recipe.run.num_epochs is not None:
        recipe = recipe.with_steps(len(load(recipe.tasks.require_train())))
        if folder.is_written_here:
            folder.change_recipe(recipe)  # so that readers of the folder need not load the tasks
    begin_early(recipe)
    screen = _screen(recipe, show, ranks)
    stopping = stopping or Stopping()
    with recording_failures(folder, stopping, ranks), stopping.listening(screen.stopping):
        screen.say(f"run {folder.path}")
        _take_turns(recipe)
        recipe = with_sizes_found(recipe, folder, screen.say, ranks)
        folder.start_trackers()
        if recipe.run.warm_start:
            try:
                recipe = await with_warm_start(recipe, folder, screen, stopping, given)
            except WarmStartStopped as stopped:
                folder.keep()
                begun = RunProgress(0, CurriculumState(seed=recipe.seed))
                _finish(
                    RunEnd(begun, str(stopped), None, None), folder, screen, time.perf_counter() - started
                )
                return False
        try:
            with screen.showing():
                async with open_run(recipe, folder, screen, ranks, given) as run:
                    ended = await train(run, stopping, on_step)
        except (CollectionFailed, EngineDown) as error:
            hint = f"\nonce that is fixed, resume with: {resume_command(folder)}"
            raise CollectionFailed(f"{error}{hint if folder.is_kept else ''}") from error
        if is_first(ranks):
            _finish(ended, folder, screen, time.perf_counter() - started)
    return not ended.why


def _take_turns(recipe: Recipe) -> None:
    if recipe.run.mode == "async":
        is_cpu = choose_device(recipe.model.device) == "cpu"
        sys.setswitchinterval(SWITCH_SECONDS if is_cpu else SWITCH_SECONDS_ON_GPU)


def _screen(recipe: Recipe, show: type[Screen] | None, ranks: Ranks) -> Screen:
    console = open_console(quiet=not is_first(ranks))
    if not is_first(ranks):
        show = Quiet
    return (show or (Panel if console.is_terminal else Screen))(console, recipe)


def _finish(ended: RunEnd, folder: RunFolder, screen: Screen, seconds: float) -> None:
    summary = summarise_run(ended, folder, seconds)
    write_json(folder.summary, summary)
    print_summary(ended, summary, folder, screen)
    for place in folder.trackers.places:
        screen.say(place)
    folder.end(ending_of(ended))
    screen.ended(summary)
