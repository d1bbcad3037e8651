"""The folder of a run that begins or is resumed, and what its request is resolved to."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from turnwise.config import Recipe, override_recipe
from turnwise.models.device_memory import Memory
from turnwise.records.folder import RunFolder
from turnwise.run.resumption import open_to_resume
from turnwise.setup.consent import keep_agreement
from turnwise.setup.request import RunRequest
from turnwise.setup.resolve import require_one_process, resolve
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.setup.sizes import least_memory, with_sizes
from turnwise.setup.tasks import with_tasks_in
from turnwise.system.ranks import Alone, Ranks, first_rank_value, is_first
from turnwise.types import Task


@contextlib.contextmanager
def opened(
    request: RunRequest, recipe: Recipe, ranks: Ranks, *, from_start: bool
) -> Iterator[tuple[RunFolder, ResolvedRun]]:
    """Yield the run's folder, which holds `recipe.json` and the lock, and the resolved run.

    The first rank resolves the request and makes or locks the folder; the others resolve what is stored
    there. `recipe` is what `request.read` has returned. Raises ValueError for the user's mistakes.
    """
    if isinstance(ranks, Alone):
        require_one_process(recipe.hardware)
    memory = least_memory(recipe, ranks)
    run, folder, mistake = None, None, None
    if is_first(ranks):
        try:
            if request.run is None:
                run, folder = _begun(request, _resolved(request, recipe, memory))
            else:
                run, folder = _resumed(request, recipe, memory, from_start=from_start)
        except ValueError as error:
            mistake = error
    path = first_rank_value(ranks, None if folder is None else folder.path)
    if path is None:
        raise mistake or ValueError("not started: the first process says why")
    with folder or RunFolder.of_other_rank(path) as used:
        yield used, run or resolve(request, used.recipe, used.recipe.played_splits)


def _begun(request: RunRequest, run: ResolvedRun) -> tuple[ResolvedRun, RunFolder]:
    run.announce()
    settings = run.recipe.run
    folder = RunFolder.create(
        settings.folder,
        settings.name or request.name,
        run.recipe,
        is_dated=not settings.name,
        recipe_file=request.recipe_file,
        with_files=lambda recipe, path: with_tasks_in(recipe, _in_no_file(run), path / "tasks"),
    )
    return replace(run, recipe=folder.recipe), folder


def _resumed(
    request: RunRequest, recipe: Recipe, memory: Memory | None, *, from_start: bool
) -> tuple[ResolvedRun, RunFolder]:
    """Lock the folder; a recipe that has changed since the user agreed to it is refused."""
    assert request.run is not None
    folder = open_to_resume(request.run, from_start=from_start)
    try:
        before = folder.recipe
        if override_recipe(before, request.changes) != recipe:
            raise ValueError(f"{request.run}: its recipe.json was changed just now: look at it and try again")
        run = _resolved(request, recipe, memory)
        run.announce()
        folder.change_recipe(run.recipe)
        keep_agreement(before, run.recipe)
    except BaseException:
        folder.close()
        raise
    return run, folder


def _resolved(request: RunRequest, recipe: Recipe, memory: Memory | None) -> ResolvedRun:
    run = resolve(request, recipe, recipe.played_splits)
    run.tasks_of("train")  # raises if there are none
    return with_sizes(run, memory)


def _in_no_file(run: ResolvedRun) -> dict[str, tuple[Task, ...]]:
    return {split: tasks for split, tasks in run.tasks.items() if split not in run.recipe.tasks.files}
