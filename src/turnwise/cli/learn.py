"""`turnwise train`: learning, from the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import Overrides, fail
from turnwise.cli.play import read_recipe, run_async

if TYPE_CHECKING:
    from turnwise.tracking.folder import RunFolder


def train(
    recipe: Annotated[Path | None, typer.Argument(help="A recipe (TOML).")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="A run's folder: go on from its last checkpoint.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006 (typer reads it once, nobody changes it)
) -> None:
    """Train a policy by playing tasks with real tools: GRPO, PPO and their kin, as the recipe says.

    Ctrl-C finishes the step, saves and says how to go on; a second one stops at once.

    Example: turnwise train recipes/cpu.toml --set run.num_steps=20
    """
    from turnwise.run.command import train_in

    if (recipe is None) == (resume is None):
        fail("give either a recipe or --resume RUN")
    with _folder(recipe, resume, overrides) as folder:
        has_ended_well = run_async(train_in(folder))
    if not has_ended_well:
        raise typer.Exit(3)


def _folder(recipe: Path | None, resume: Path | None, overrides: list[str]) -> "RunFolder":
    from turnwise.config import changed_recipe
    from turnwise.tracking.folder import RunFolder

    try:
        if resume is not None:
            folder = RunFolder.open(resume)
            folder.change_recipe(changed_recipe(folder.recipe, overrides))
            return folder
        assert recipe is not None
        settings = read_recipe(recipe, overrides)
        run = settings.run
        return RunFolder.create(run.folder, run.name or recipe.stem, settings, is_dated=not run.name)
    except ValueError as error:
        fail(str(error))
