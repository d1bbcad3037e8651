"""`turnwise rollout` and `turnwise eval`: playing tasks, from the command line."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli import processes
from turnwise.cli.options import AsJson, Overrides, fail
from turnwise.cli.recipes import Best, Step, announce_servers, read_agent, read_recipe, run_async
from turnwise.cli.trust import Trust

if TYPE_CHECKING:
    from turnwise.config import Recipe
    from turnwise.types import Task

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
    settings = read_recipe(recipe, [*overrides, *(["engine.kind=scripted"] if script else [])])
    processes.alone(settings, "rollout")
    announce_servers(settings)
    if out.exists():
        print(f"{out} is there already: these trajectories are appended to it", file=sys.stderr)
    chosen = _tasks(tasks, settings, "train")[:groups]
    from turnwise.run.playing import play_groups

    run_async(play_groups(settings, chosen, out=out, num_shown=show))


def evaluate(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (TOML), or a run's folder for what it has learned.")
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
        new_report,
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
    if out is None:
        out = new_report(Path("runs"))
    else:
        require_free_report(out)
    agent = read_agent(
        recipe,
        best=best,
        step=step,
        trust=trust,
        overrides=[*overrides, *(["engine.kind=scripted"] if script else [])],
    )
    processes.alone(agent.recipe, "eval")
    announce_servers(agent.recipe)
    from turnwise.run.playing import evaluate_recipe
    from turnwise.tasks.selection import across_families

    chosen = across_families(_tasks(tasks, agent.recipe, "test"), agent.recipe.evaluation.num_tasks)
    report, written = run_async(
        evaluate_recipe(
            agent.recipe,
            chosen,
            agent.model,
            name=agent.name,
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


def _tasks(file: Path | None, recipe: "Recipe", split: str) -> "tuple[Task, ...]":
    """Return the tasks of a file, else those of the recipe's split, else those that its environment has."""
    from turnwise.setup.tasks import own_tasks
    from turnwise.tasks.load import load

    path = file or recipe.tasks.files.get(split)
    try:
        if path is not None:
            return load(path)
        made = own_tasks(recipe)
    except ValueError as error:
        fail(str(error))
    if split not in made:
        hint = f"set tasks.{split} in the recipe (`turnwise tasks make` makes some)"
        fail(f"no tasks: give --tasks FILE, or {hint}")
    return made[split]
