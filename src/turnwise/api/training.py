"""Train from Python: reinforcement learning and the warm start, as `turnwise train` and `turnwise sft`."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from turnwise.api.run import Run, as_path
from turnwise.config import Recipe, override_recipe
from turnwise.records.failed_starts import Starting, recording_failed_start
from turnwise.records.folder import RunFolder
from turnwise.rewards.terms import RewardLike
from turnwise.run.command import train_in
from turnwise.run.demonstrations.warm_up import WarmStart, warm_up
from turnwise.run.loop import OnStep
from turnwise.run.resumption import open_to_resume
from turnwise.run.screen.screen import Quiet
from turnwise.setup.request import plain_values
from turnwise.setup.resolve import (
    NO_SETTINGS,
    Resolved,
    TaskSource,
    announce_servers,
    changes,
    require_consent,
    require_one_process,
    resolve,
)
from turnwise.setup.tasks import require_train_tasks
from turnwise.setup.trusted_runs import keep_agreement
from turnwise.system.background import run_in_thread
from turnwise.system.process_setup import prepare
from turnwise.system.python_functions import Given
from turnwise.system.stopping import Stopping
from turnwise.training.update.sft import SftStep


def train(
    recipe: Recipe | str | Path | None = None,
    *,
    model: str | Path | None = None,
    mcp: str | Path | None = None,
    tasks: TaskSource | None = None,
    validation: TaskSource | None = None,
    test: TaskSource | None = None,
    rewards: Sequence[RewardLike] | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment: Callable[[], Any] | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
    folder: str | Path | None = None,
    on_step: OnStep | None = None,
    resume: Run | str | Path | None = None,
    from_start: bool = False,
    trust: bool = False,
    quiet: bool = False,
) -> Run:
    """Train a policy by playing tasks with real tools, and return its run.

    Ctrl-C finishes the step, saves and returns, and so do a closed terminal and a broken pipe; `Run.ended`
    says why it ended. A second Ctrl-C stops at once and raises KeyboardInterrupt. It also works inside a
    running event loop, such as a notebook's.

    recipe: a file (TOML) or a `Recipe`; the defaults if absent.
    model: a folder or a name on the hub; `model.path` of the recipe.
    mcp: an mcp.json; `tools.mcp` of the recipe.
    tasks, validation, test: a file, or a sequence of `Task` or of rows of such a file.
    rewards: functions of a trajectory, weighted parts such as `outcome(0.5)`, or names.
    tools: Python functions offered as tools; they run in this process.
    environment: a class of your own in place of tools; its `tasks()` are the default of `tasks`.
    settings: any other keys of the recipe: {"run.num_steps": 20}.
    folder: where the run's folder is created; `runs` by default.
    on_step: called after every step with its figures. If it raises, the run is saved and the error is raised.
    resume: a run to go on with; with `settings`, and again the functions that it was given.
    from_start: with `resume`, start over in the folder of a run that saved nothing.
    trust: start what the recipe of a run made elsewhere names, when it is resumed.
    quiet: print only alarms, evaluations and the summary.
    """
    sources = {"train": tasks, "validation": validation, "test": test}
    if folder is not None:
        settings = {"run.folder": Path(folder), **settings}
    if from_start and resume is None:
        raise ValueError("from_start goes with `resume`; a recipe starts a new run")
    if resume is not None:
        fixed = {"recipe": recipe, "model": model, "mcp": mcp, "folder": folder, **sources}
        if ignored := [name for name, value in fixed.items() if value is not None]:
            raise ValueError(f"resume: the run has its own {ignored[0]}; change other keys by `settings`")
        functions = {"rewards": rewards, "tools": tools, "environment": environment}
        opened, given = _resumed(as_path(resume), functions, settings, from_start=from_start, trust=trust)
        resolved = None
    else:
        resolved = resolve(
            recipe,
            model=model,
            mcp=mcp,
            tasks=sources,
            rewards=rewards,
            tools=tools,
            environment=environment,
            settings=settings,
        )
        require_train_tasks(resolved.recipe, "train" in resolved.tasks)
        opened, given = _created(resolved), resolved.given
    stopping = Stopping()
    with _recording_failed_start(resolved) as starting, opened as run:
        starting.folder = run
        if resolved is not None and resolved.tasks:
            run.change_recipe(resolved.with_tasks_in(run.path / "tasks"))
        announce_servers(run.recipe, given)
        show = Quiet if quiet else None
        run_in_thread(lambda: train_in(run, show, stopping=stopping, given=given, on_step=on_step), stopping)
    if stopping.error is not None:
        raise stopping.error
    return Run(opened.path, given)


def _recording_failed_start(resolved: Resolved | None) -> AbstractContextManager[Starting]:
    """Record a start that fails; a resumed run has its own record."""
    if resolved is None:
        return nullcontext(Starting())
    return recording_failed_start(
        resolved.recipe.run.folder,
        recipe_file=resolved.recipe_file,
        name=resolved.recipe.run.name or resolved.name,
        command="turnwise.train() in Python",
        reason=lambda error: f"{type(error).__name__}: {error}",
    )


def _created(resolved: Resolved) -> RunFolder:
    require_one_process(resolved.recipe, "train")
    run = resolved.recipe.run
    return RunFolder.create(
        run.folder,
        run.name or resolved.name,
        resolved.recipe,
        is_dated=not run.name,
        recipe_file=resolved.recipe_file,
    )


def _resumed(
    path: Path,
    functions: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    from_start: bool,
    trust: bool,
) -> tuple[RunFolder, Given]:
    prepare()
    given: dict[str, Callable[..., Any]] = {}
    chosen = {**changes(given, **functions), **settings}
    before = RunFolder.read(path).recipe
    changed = override_recipe(before, plain_values(chosen))
    require_one_process(changed, "train")
    require_consent(path, before, changed, list(chosen), trust=trust)
    folder = open_to_resume(path, from_start=from_start)
    folder.change_recipe(changed)
    keep_agreement(before, changed)
    return folder, given


def sft(
    recipe: Recipe | str | Path | None = None,
    *,
    out: str | Path,
    model: str | Path | None = None,
    mcp: str | Path | None = None,
    tasks: TaskSource | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    settings: Mapping[str, Any] = NO_SETTINGS,
    run: Run | str | Path | None = None,
    verify: bool = True,
    adapter: bool = False,
    on_step: Callable[[SftStep], None] = lambda step: None,
) -> WarmStart:
    """Warm a model up before RL: supervised learning on the verified demonstrations of the training tasks.

    recipe, model, mcp, tasks, tools, settings: as in `train`.
    out: the folder to write the model to; it must not exist yet.
    run: learn from the episodes of this run that succeeded, instead of from demonstrations.
    verify: play each demonstration with its real tools and drop those that fail.
    adapter: write only the LoRA adapter, in peft's format.
    """
    if run is not None and not verify:
        raise ValueError("verify=False: the episodes of a run are already scored, nothing is played")
    resolved = resolve(recipe, model=model, mcp=mcp, tasks={"train": tasks}, tools=tools, settings=settings)
    require_one_process(resolved.recipe, "sft")
    announce_servers(resolved.recipe, resolved.given)
    with tempfile.TemporaryDirectory(prefix="turnwise-tasks-") as folder:
        complete = resolved.with_tasks_in(Path(folder))
        return run_in_thread(
            lambda: warm_up(
                complete,
                Path(out),
                run=None if run is None else as_path(run),
                is_verified=verify,
                is_adapter=adapter,
                on_step=on_step,
                is_partial_kept=True,
                given=resolved.given,
            )
        )
