"""`turnwise export` and `turnwise chat`: trained models, from the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnwise.cli.options import Overrides, fail
from turnwise.cli.play import prepare, read_recipe, run_async

if TYPE_CHECKING:
    from turnwise.config import Recipe

Best = Annotated[bool, typer.Option("--best", help="The checkpoint that did best on validation.")]
Step = Annotated[int | None, typer.Option(help="The checkpoint after that many steps; the last by default.")]


def export(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    out: Annotated[Path, typer.Option(help="Where the model goes: a folder that is not there yet.")],
    adapter: Annotated[
        bool, typer.Option("--adapter", help="The LoRA adapter alone, in peft's format; merged by default.")
    ] = False,
    best: Best = False,
    step: Step = None,
) -> None:
    """Write a run's model as others load it: safetensors, tokenizer and chat template, or the adapter.

    Example: turnwise export runs/cpu-20261115-070000 --out model && turnwise eval recipes/cpu.toml --set
    model.path=model
    """
    from turnwise.export import export_run

    try:
        exported = export_run(run, out, which=chosen(best, step), is_adapter=adapter)
    except ValueError as error:
        fail(str(error))
    kind = "adapter" if adapter else "model"
    print(f"{exported.folder}: the {kind} after {exported.step} steps, {exported.num_bytes / 1e6:,.1f} MB")


def chat(
    path: Annotated[Path, typer.Argument(help="A run's folder, or a recipe (TOML) for its model as it is.")],
    best: Best = False,
    step: Step = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy: always the likeliest token.")] = 0.0,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Talk to a trained agent: it calls its real tools, and you see what it does.

    Example: turnwise chat runs/cpu-20261115-070000
    """
    from rich.console import Console

    from turnwise.talk import lines_of, talk

    recipe, model = _agent(path, chosen(best, step), overrides)
    console = Console(emoji=False, highlight=False)
    run_async(talk(recipe, model, temperature=temperature, console=console, ask=lines_of("> ")))


def _agent(path: Path, which: int | Literal["best"] | None, overrides: list[str]) -> "tuple[Recipe, Any]":
    """A run's recipe and what it has learned; or a recipe, and None for its model as it is."""
    if not path.is_dir():
        if which is not None:
            fail(f"--best and --step choose a checkpoint of a run, and {path} is none")
        return read_recipe(path, overrides), None
    prepare()
    from turnwise.config import changed_recipe
    from turnwise.trained import load_trained
    from turnwise.training.model_folder import plain_model

    try:
        trained = load_trained(path, which)
        return changed_recipe(trained.recipe, overrides), plain_model(trained.policy)
    except ValueError as error:
        fail(str(error))


def chosen(best: bool, step: int | None) -> int | Literal["best"] | None:
    """Which checkpoint is meant; None is the last one."""
    if best and step is not None:
        fail("--best and --step name different checkpoints")
    return "best" if best else step
