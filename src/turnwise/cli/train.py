"""`turnwise train` and `turnwise sft`: learning, from the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import processes as rank_processes
from turnwise.cli.options import Overrides, fail
from turnwise.cli.recipes import read_recipe, requested, run_async, with_generated_tasks
from turnwise.cli.trust import Trust, consent

if TYPE_CHECKING:
    from turnwise.config import Recipe
    from turnwise.run.demonstrations.warm_up import WarmStart


def train(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (TOML), or the name of an included one, such as cpu.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="A run's folder: resume from its last checkpoint.")
    ] = None,
    from_start: Annotated[
        bool,
        typer.Option(
            "--from-start", help="With --resume: start over in the folder of a run that saved nothing."
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only alarms, evaluations and the summary.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON object per line on stdout.")
    ] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Check recipe, tasks, tools and memory; play nothing.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Processes on this machine, one GPU each; overrides the recipe."),
    ] = None,
    engine: Annotated[str, typer.Option(help="skyrl: train with SkyRL on Ray, on a cluster.")] = "",
    trust: Trust = False,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Train a policy by playing tasks with real tools. The recipe chooses GRPO, PPO or a variant.

    Ctrl-C finishes the step, saves and says how to resume; a second one stops at once. A closed terminal and
    a broken pipe end it like the first Ctrl-C; under nohup it goes on.

    Several processes: `--processes N`, or under torchrun or accelerate launch; see docs/guides/scaling.md.

    Exit codes: 0 all steps are done; 1 an unexpected error, or --dry-run found a problem; 2 a mistake in the
    recipe or the setup, or infrastructure that is down; 3 it ended early, after Ctrl-C, a closed terminal or
    a broken pipe, or by an alarm, and can be resumed; 130 a second Ctrl-C.

    Example: turnwise train cpu --set run.num_steps=20
    """
    num_before = len(overrides)
    if quiet and json:
        fail("give either --quiet or --json")
    if (recipe is None) == (resume is None):
        fail("give either a recipe or --resume RUN")
    if from_start and resume is None:
        fail("--from-start goes with --resume RUN; a recipe starts a new run")
    overrides = rank_processes.with_processes(overrides, processes)
    if engine:
        if len(overrides) > num_before:
            fail("--processes: SkyRL starts its own processes, by the keys of [skyrl]")
        _train_elsewhere(engine, recipe, overrides, is_dry=dry, is_shown_otherwise=quiet or json)
        return
    if dry:
        _dry_run(recipe, overrides)
        return
    request = requested(recipe, overrides, run=resume)
    settings = request.read(consent(trust=trust))
    if rank_processes.are_to_be_started(settings.hardware.num_processes):
        shown = ["--quiet"] * quiet + ["--json"] * json
        # --trust: if the user had to be asked, this process has done it
        again = ["--resume", str(resume), "--trust", *["--from-start"] * from_start]
        source = [str(recipe)] if resume is None else again
        options = [word for override in overrides for word in ("--set", override)]
        raise typer.Exit(
            rank_processes.start(
                settings.hardware.num_processes, settings.model.device, ["train", *source, *shown, *options]
            )
        )

    _begin_early(settings)  # before the imports that follow, which take seconds
    from turnwise.run.command import train_run
    from turnwise.run.screen.screen import Json, Quiet

    show = Json if json else Quiet if quiet else None
    with rank_processes.joined(settings.model.device, settings.hardware.strategy) as ranks:
        trained = run_async(train_run(request, settings, from_start=from_start, ranks=ranks, show=show))
    if not trained.is_finished:
        raise typer.Exit(3)


def _begin_early(settings: "Recipe") -> None:
    from turnwise.engines.vllm_helper import begin_early
    from turnwise.system.ranks.launch import is_launched

    if not is_launched():  # else this process does not know its GPU yet
        begin_early(settings)


def demo(
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Train the included small model, on a CPU, without a download. Its five servers need no key.

    This is `turnwise train cpu`. The run is written to ./runs; `turnwise view` shows it.

    Example: turnwise demo
    """
    train(Path("cpu"), overrides=overrides)


def _train_elsewhere(
    engine: str, recipe: Path | None, overrides: list[str], *, is_dry: bool, is_shown_otherwise: bool
) -> None:
    if engine != "skyrl":
        fail(f"--engine {engine}: only skyrl is known; engine.kind in the recipe says what samples")
    if recipe is None:
        fail("--engine skyrl goes on from its last checkpoint by itself: give the recipe again")
    if is_shown_otherwise:
        fail("--engine skyrl prints what SkyRL prints: --quiet and --json are not known to it")
    request = requested(recipe, overrides)
    settings = request.read(None)
    from turnwise.rollout.collector import CollectionFailed
    from turnwise.run.checks.dry import dry_episodes, to_check
    from turnwise.run.skyrl.launch import launch, preview
    from turnwise.setup.resolve import resolve, without_quantisation

    settings = without_quantisation(settings)

    if settings.environment and settings.tasks.train is None:
        fail("tasks.train: --engine skyrl reads tasks from a file, also those of an environment")
    try:
        if not is_dry:
            resolve(request, settings).announce()
            launch(settings, recipe.stem, say=lambda words: print(words, flush=True))
            return
        lines, problems = preview(settings, recipe.stem)
    except (ValueError, CollectionFailed) as error:
        fail(str(error))
    episodes = run_async(dry_episodes(to_check(settings)))
    _print_dry((*episodes.lines, *lines), (*episodes.problems, *problems), episodes.unchecked)


def sft(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML); its tasks.train have demonstrations.")],
    out: Annotated[Path, typer.Option(help="Folder to write the model to; it must not exist yet.")],
    run: Annotated[
        Path | None,
        typer.Option("--from", help="A run's folder: learn from its successes instead of tasks.train."),
    ] = None,
    verify: Annotated[
        bool, typer.Option(help="Play each demonstration with its real tools and drop those that fail.")
    ] = True,
    adapter: Annotated[
        bool,
        typer.Option("--adapter", help="Write only the LoRA adapter, in peft's format; merged by default."),
    ] = False,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Warm a model up before RL, on the tasks' demonstrations. Those that fail are not used.

    With --from, on the episodes of a run that succeeded, token for token (rejection sampling).

    Ctrl-C while it learns writes the model as it is after that step.

    Example: turnwise sft recipe.toml --out models/warm && turnwise train recipe.toml --set
    model.path=models/warm
    """
    if run is not None and not verify:
        fail("--no-verify: --from plays nothing, its episodes are already scored")
    rank_processes.require_no_launcher("sft")
    request = requested(recipe, overrides)
    settings = request.read(None)
    from turnwise.run.demonstrations.sft_progress import SftProgress
    from turnwise.run.demonstrations.warm_up import warm_up
    from turnwise.setup.resolve import resolve_alone

    resolved = resolve_alone(request, settings, () if run is not None else ("train",))
    resolved.announce()
    progress = SftProgress(lambda line: print(line, flush=True), "step")
    warm = run_async(
        warm_up(
            resolved,
            out,
            source=run,
            is_verified=verify,
            is_adapter=adapter,
            on_step=progress.step,
            on_part=progress.part,
            on_note=print,
            is_partial_kept=True,
        )
    )
    for task_id, reason in list(warm.dropped.items())[:5]:
        print(f"dropped {task_id}: {reason}")
    print(
        f"{warm.folder}: learned from {_learned_from(warm)}; {warm.num_taken} taken, "
        f"loss {warm.steps[0].loss:.4f} -> {warm.steps[-1].loss:.4f}; it ended because {warm.why}"
    )


def _learned_from(warm: "WarmStart") -> str:
    from turnwise.system.terminal import printable

    successes = warm.successes
    if successes is None:
        return f"{warm.num_lessons} demonstrations, {len(warm.dropped)} dropped"
    for line in successes.unusable[:5]:
        print(f"left out {printable(line)}")
    return (
        f"{warm.num_lessons} successes ({successes.num_episodes} episodes, "
        f"{successes.num_succeeded} succeeded, {successes.num_repeated} repeated, "
        f"{successes.num_over_limit} over the limit per task, {len(successes.unusable)} damaged)"
    )


def _dry_run(recipe: Path | None, overrides: list[str]) -> None:
    if recipe is None:
        fail("--dry-run looks at a recipe, not at a run that has begun")
    from turnwise.setup.resolve import without_quantisation

    with with_generated_tasks(without_quantisation(read_recipe(recipe, overrides))) as settings:
        from turnwise.run.checks.dry import dry_run, to_check

        result = run_async(dry_run(to_check(settings)))
    _print_dry(result.lines, result.problems, result.unchecked)


def _print_dry(lines: Sequence[str], problems: Sequence[str], unchecked: Sequence[str]) -> None:
    """Print the result of a dry run; exit code 1 if there are problems."""
    from turnwise.system.terminal import printable

    for line in lines:
        print(printable(line))
    for problem in problems:
        print(f"bad  {printable(problem)}")
    if unchecked:
        print(printable(f"not checked: {'; '.join(unchecked)}"))
    if problems:
        raise typer.Exit(1)
