"""A request resolved: quantisation, tasks, steps and servers are decided here, once and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from turnwise.config import HardwareConfig, Recipe, RunConfig
from turnwise.setup.request import RunRequest
from turnwise.setup.resolved_run import ResolvedRun
from turnwise.setup.servers import NO_SERVERS, servers_of
from turnwise.setup.tasks import own_tasks
from turnwise.tasks.load import load
from turnwise.types import Task


def resolve(request: RunRequest, recipe: Recipe, splits: Sequence[str] = ()) -> ResolvedRun:
    """Resolve a request; `recipe` is what `request.read` has returned, `splits` are the tasks to read.

    Raises ValueError for the user's mistakes.
    """
    if request.run is None:  # a run goes on as it was begun, or not at all
        recipe = without_quantisation(recipe)
    tasks = _tasks(request, recipe, splits)
    if "train" in tasks:
        if "train" not in recipe.tasks.files:
            recipe = recipe.model_copy(update={"run": _with_few_tasks(recipe.run, len(tasks["train"]))})
        recipe = recipe.with_steps(len(tasks["train"]))
    servers = NO_SERVERS if recipe.tools.is_replayed else servers_of(recipe, given=request.functions)
    return ResolvedRun(recipe, tasks, servers, request.functions, servers.notes)


def resolve_alone(request: RunRequest, recipe: Recipe, splits: Sequence[str] = ()) -> ResolvedRun:
    """Resolve what a single process does; a note says which settings for several it leaves out."""
    run = resolve(request, recipe, splits)
    if not (left := _for_several(recipe.hardware)):
        return run
    note = f"one process does this, with the whole model; left out: {', '.join(left)}"
    return replace(run, notes=(note, *run.notes))


def require_one_process(hardware: HardwareConfig) -> None:
    """Raise ValueError if the settings are for several processes, which only `turnwise train` can start."""
    if left := _for_several(hardware):
        raise ValueError(f"{', '.join(left)}: only the command `turnwise train` starts several processes")


def _for_several(hardware: HardwareConfig) -> list[str]:
    """Return the settings that only several processes can follow."""
    left = [f"hardware.num_processes = {hardware.num_processes}"] if hardware.num_processes > 1 else []
    left += [f"hardware.strategy = '{hardware.strategy}'"] if hardware.strategy != "data_parallel" else []
    return left


def _tasks(request: RunRequest, recipe: Recipe, splits: Sequence[str]) -> dict[str, tuple[Task, ...]]:
    """Return the tasks of these splits: given ones, those of files, or those that the recipe makes."""
    tasks = dict(request.tasks)
    if splits and "train" not in tasks:
        tasks = {**own_tasks(recipe, request.functions), **tasks}
    files, read = recipe.tasks.files, dict[Path, tuple[Task, ...]]()
    for split in splits:
        if split not in tasks and split in files:  # one file may be that of two splits
            tasks[split] = read[files[split]] = read.get(files[split]) or load(files[split])
    return tasks


def _with_few_tasks(run: RunConfig, num_tasks: int) -> RunConfig:
    """Return the settings; unless run.tasks_per_step was set, a step draws no more tasks than there are."""
    if "tasks_per_step" in run.model_fields_set or not 0 < num_tasks < run.tasks_per_step:
        return run
    return run.model_copy(update={"tasks_per_step": num_tasks})


def without_quantisation(recipe: Recipe) -> Recipe:
    """Return the recipe as this machine can run it: with a bfloat16 base if it cannot quantise."""
    if recipe.model.quantisation == "none":
        return recipe
    from turnwise.models.quantised import settled

    return recipe.model_copy(update={"model": settled(recipe.model)})
