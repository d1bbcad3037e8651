"""`turnwise export`: trained models, from the command line."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnwise.cli.options import fail

RunOrRecipe = Annotated[
    Path, typer.Argument(help="A run's folder, or a recipe (TOML) for its model untrained.")
]
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


def chosen(best: bool, step: int | None) -> int | Literal["best"] | None:
    """Which checkpoint is meant; None is the last one."""
    if best and step is not None:
        fail("--best and --step name different checkpoints")
    return "best" if best else step
