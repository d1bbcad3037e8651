"""`turnwise rollout` and `turnwise eval`: playing tasks, from the command line."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli import processes
from turnwise.cli.options import AsJson, Overrides, fail
from turnwise.cli.recipes import Best, Step, chosen, requested, requested_agent, run_async
from turnwise.cli.trust import Trust, consent

RecipeFile = Annotated[Path | None, typer.Argument(help="A recipe (TOML); defaults if absent.")]


def rollout(
    recipe: RecipeFile = None,
    tasks: Annotated[
        Path | None, typer.Option(help="Task file; the recipe's training tasks by default.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where trajectories are appended, as JSON lines.")] = Path(
        "runs/rollout/trajectories.jsonl"
    ),
    groups: Annotated[int, typer.Option(help="How many tasks to play.")] = 4,
    script: Annotated[bool, typer.Option("--script", help="Play each task's own demonstration.")] = False,
    show: Annotated[int, typer.Option(help="How many episodes to print.")] = 4,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Play tasks with real tools, save the episodes and print some.

    Example: turnwise rollout --tasks tasks/test.jsonl --script --groups 2
    """
    processes.require_no_launcher("rollout")
    request = requested(recipe, overrides, changes=_changes(script, "train", tasks))
    if out.exists():
        print(f"{out} is there already: these trajectories are appended to it", file=sys.stderr)
    settings = request.read(None)  # before torch is loaded, so that a mistake is told at once
    from turnwise.run.playing import play_groups
    from turnwise.setup.resolve import resolve_alone

    run = resolve_alone(request, settings, ("train",))
    run_async(play_groups(run, num_tasks=groups, out=out, num_shown=show))


def evaluate(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (TOML), or a run folder (uses its trained model).")
    ] = None,
    tasks: Annotated[Path | None, typer.Option(help="Task file; the recipe's test tasks by default.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="New file to write the figures to; runs/eval/DATE-TIME/eval.json by default."),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", "-k", help="Episodes per task.")] = 4,
    temperature: Annotated[float, typer.Option(help="0 is greedy; one sample is then enough.")] = 1.0,
    script: Annotated[bool, typer.Option("--script", help="Play each task's own demonstration.")] = False,
    endpoint: Annotated[str, typer.Option(help="URL of an OpenAI-compatible endpoint to evaluate.")] = "",
    model: Annotated[str, typer.Option(help="The model's name at that endpoint.")] = "",
    prices: Annotated[
        tuple[float, float],
        typer.Option(help="Dollars per million tokens, read and sampled, to report the cost."),
    ] = (0.0, 0.0),
    compare: Annotated[
        tuple[Path, Path] | None, typer.Option(help="Two eval.json files: print paired differences instead.")
    ] = None,
    best: Best = False,
    step: Step = None,
    trust: Trust = False,
    as_json: AsJson = False,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Measure success on held-out tasks, with intervals. By family and difficulty, with pass@k and pass^k.

    An endpoint's key is read from OPENAI_API_KEY, in the environment or `.env`.

    Example: turnwise eval recipe.toml -k 8 --set model.path=models/warm
    """
    from turnwise.rollout.measure.report import compare as compared
    from turnwise.rollout.measure.report import (
        print_comparison,
        print_report,
        read_report,
        require_free_report,
    )

    if compare is not None:
        try:
            before, after = (read_report(path.resolve()) for path in compare)
            print_comparison(compared(before, after), as_json=as_json)
        except ValueError as error:
            fail(str(error))
        return
    if bool(endpoint) != bool(model):
        fail("--endpoint and --model go together")
    processes.require_no_launcher("eval")
    which = chosen(best, step, recipe)
    if out is not None:
        require_free_report(out)
    request = requested_agent(recipe, overrides, _changes(script, "test", tasks))
    read = request.read(consent(trust=trust))
    from turnwise.run.playing import evaluate_agent
    from turnwise.setup.agent import resolve_agent

    report, written = run_async(
        evaluate_agent(
            resolve_agent(request, read, "test", which),
            out=out,
            num_samples=samples,
            temperature=temperature,
            endpoint=endpoint,
            endpoint_model=model,
            prices=prices,
        )
    )
    print_report(report, as_json=as_json)
    print(f"figures: {written}", file=sys.stderr)


def _changes(script: bool, split: str, tasks: Path | None) -> dict[str, str]:
    """Return the keys of a recipe that --script and --tasks stand for."""
    scripted = {"engine.kind": "scripted"} if script else {}
    return scripted if tasks is None else {**scripted, f"tasks.{split}": str(tasks)}
