"""Train in a run's folder from wherever it stands; the terminal, the log and ended.json say how that went."""

import sys
import time

from rich.console import Console

from turnwise.config import Recipe
from turnwise.devices import choose_device
from turnwise.distributed import ALONE, Ranks, is_first
from turnwise.protocols import EngineDown
from turnwise.rollout.collector import CollectionFailed
from turnwise.run.ending import ending_of, recording_failures
from turnwise.run.loop import Ended, train
from turnwise.run.opened import open_run
from turnwise.run.panel import Panel
from turnwise.run.screen import Quiet, Screen
from turnwise.run.stopping import Stopping
from turnwise.run.summary import print_summary, summarise_run
from turnwise.tasks.load import load
from turnwise.tracking.folder import RunFolder
from turnwise.tracking.whole import write_json

SWITCH_SECONDS, SWITCH_SECONDS_ON_GPU = 1e-3, 1e-5
"""After which an update and the episodes played beside it, two threads, take turns. With each operation, of
thousands in a pass, torch lets the other go on; at Python's own 5 ms it waits so long to go on itself. On a
CPU operations are long beside that, and switching has its own costs."""


async def train_in(folder: RunFolder, show: type[Screen] | None = None, ranks: Ranks = ALONE) -> bool:
    """Whether it got to the end of its steps; if not, the folder can be resumed.

    Shown as a panel on a terminal and as plain lines elsewhere, unless `show` says how. Of several ranks the
    first one speaks and writes.
    """
    started = time.perf_counter()
    recipe = folder.recipe
    if recipe.run.num_epochs is not None:
        recipe = recipe.with_steps(len(load(recipe.tasks.to_learn_from())))
        if folder.is_written_here:
            folder.change_recipe(recipe)  # whoever reads the folder is not to need the tasks
    screen = _screen(recipe, show, ranks)
    stopping = Stopping()
    with recording_failures(folder, stopping, ranks), stopping.listening(screen.stopping):
        screen.say(f"run {folder.path}")
        _take_turns(recipe)
        folder.start_trackers()
        try:
            with screen.showing():
                async with open_run(recipe, folder, screen, ranks) as run:
                    ended = await train(run, stopping)
        except (CollectionFailed, EngineDown) as error:
            hint = f"once that is mended, go on with: turnwise train --resume {folder.path}"
            raise CollectionFailed(f"{error}\n{hint}") from error
        if is_first(ranks):
            _finish(ended, folder, screen, time.perf_counter() - started)
    return not ended.why


def _take_turns(recipe: Recipe) -> None:
    if recipe.run.mode == "async":
        is_cpu = choose_device(recipe.model.device) == "cpu"
        sys.setswitchinterval(SWITCH_SECONDS if is_cpu else SWITCH_SECONDS_ON_GPU)


def _screen(recipe: Recipe, show: type[Screen] | None, ranks: Ranks) -> Screen:
    console = Console(emoji=False, quiet=not is_first(ranks))
    if not is_first(ranks):
        show = Quiet
    return (show or (Panel if console.is_terminal else Screen))(console, recipe)


def _finish(ended: Ended, folder: RunFolder, screen: Screen, seconds: float) -> None:
    summary = summarise_run(ended, folder, seconds)
    write_json(folder.summary, summary)
    print_summary(ended, summary, folder, screen)
    for place in folder.trackers.places:
        screen.say(place)
    folder.end(ending_of(ended))
    screen.ended(summary)
