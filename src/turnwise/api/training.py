"""Train from Python: reinforcement learning and the warm start, as `turnwise train` and `turnwise sft`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.api.request import NO_SETTINGS, TaskSource, consent, request_of
from turnwise.api.run import Run, as_path
from turnwise.config import Recipe
from turnwise.rewards.terms import RewardLike
from turnwise.run.command import train_run
from turnwise.run.demonstrations.warm_up import WarmStart, warm_up
from turnwise.run.loop import OnStep
from turnwise.run.screen.screen import Quiet
from turnwise.setup.resolve import resolve_alone
from turnwise.system.background import run_in_thread
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
    if from_start and resume is None:
        raise ValueError("from_start goes with `resume`; a recipe starts a new run")
    if resume is not None:
        fixed = {"recipe": recipe, "model": model, "mcp": mcp, "folder": folder, **sources}
        if ignored := [name for name, value in fixed.items() if value is not None]:
            raise ValueError(f"resume: the run has its own {ignored[0]}; change other keys by `settings`")
    if folder is not None:
        settings = {"run.folder": Path(folder), **settings}
    request = request_of(
        recipe,
        run=None if resume is None else as_path(resume),
        model=model,
        mcp=mcp,
        tasks=sources,
        rewards=rewards,
        tools=tools,
        environment=environment,
        settings=settings,
    )
    read = request.read(consent(trust=trust))
    stopping = Stopping()
    trained = run_in_thread(
        lambda: train_run(
            request,
            read,
            from_start=from_start,
            show=Quiet if quiet else None,
            stopping=stopping,
            on_step=on_step,
        ),
        stopping,
    )
    if stopping.error is not None:
        raise stopping.error
    return Run(trained.path, request.functions)


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
    request = request_of(recipe, model=model, mcp=mcp, tasks={"train": tasks}, tools=tools, settings=settings)
    resolved = resolve_alone(request, request.read(None), () if run is not None else ("train",))
    resolved.announce()
    return run_in_thread(
        lambda: warm_up(
            resolved,
            Path(out),
            source=None if run is None else as_path(run),
            is_verified=verify,
            is_adapter=adapter,
            on_step=on_step,
            is_partial_kept=True,
        )
    )
