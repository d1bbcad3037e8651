"""Reads what a command works on, a recipe or a run, and runs that work; mistakes end it in one line."""

import asyncio
import contextlib
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from turnwise.cli.options import fail, print_notes
from turnwise.cli.trust import require_trust
from turnwise.system.interruption import interrupted_as_by_ctrl_c
from turnwise.system.process_setup import prepare

if TYPE_CHECKING:
    from turnwise.config import Recipe

Best = Annotated[
    bool,
    typer.Option("--best", help="Fail unless a validation chose the checkpoint; then the default."),
]
Step = Annotated[
    int | None,
    typer.Option(help="Use the run's checkpoint after this many steps; by default the best on validation."),
]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Agent:
    """A recipe, and the model that is sampled instead of its own."""

    recipe: "Recipe"
    model: Any = None
    """None for the recipe's own model."""
    name: str = ""
    """The model's name; empty for the recipe's own model."""


def read_recipe(path: Path | None, overrides: Sequence[str]) -> "Recipe":
    """Return the recipe as this machine can run it: with a bfloat16 base if it cannot quantise."""
    recipe = read_unsettled(path, overrides)
    if recipe.model.quantisation == "none":
        return recipe
    from turnwise.models.quantised import settled

    return settled(recipe)


@contextlib.contextmanager
def with_generated_tasks(recipe: "Recipe") -> Iterator["Recipe"]:
    """Yield the recipe with the tasks that its environment generates in files, for as long as the block runs.

    Exits if the recipe has an environment and there are no training tasks at all.
    """
    with contextlib.ExitStack() as exits:
        from turnwise.setup.tasks import may_make_tasks, with_own_tasks

        if may_make_tasks(recipe):
            folder = exits.enter_context(tempfile.TemporaryDirectory(prefix="turnwise-tasks-"))
            try:
                recipe = with_own_tasks(recipe, Path(folder))
            except ValueError as error:
                fail(str(error))
        yield recipe


def announce_servers(recipe: "Recipe", *, is_printed: bool = True) -> None:
    """Print which servers are live and which keys are unused; exit if the servers' settings are wrong."""
    if recipe.tools.is_replayed:
        return
    from turnwise.setup.servers import servers_of

    try:
        servers = servers_of(recipe)
    except ValueError as error:
        fail(str(error))
    if is_printed:
        print_notes(servers)


def read_unsettled(path: Path | None, overrides: Sequence[str]) -> "Recipe":
    """Return the recipe as written, not adapted to this machine."""
    from turnwise.config import parse_settings, read_recipe

    prepare()
    try:
        return read_recipe(path, parse_settings(overrides))
    except ValueError as error:
        fail(str(error))


def read_agent(
    path: Path | None, *, best: bool, step: int | None, overrides: Sequence[str], trust: bool
) -> Agent:
    """Return a run's recipe and trained model; or, for a recipe file, the recipe with its own model.

    `trust` is for a run that was not made here: what its recipe names is started without asking.
    """
    which = chosen(best, step)
    if path is None or not path.is_dir():
        if which is not None:
            fail(
                f"--best and --step choose a checkpoint of a run, and {path or 'the default recipe'} is none"
            )
        return Agent(read_recipe(path, overrides))
    prepare()
    check_run(path)
    recipe = run_recipe(path, overrides, trust=trust)
    from turnwise.setup.trained import load_trained
    from turnwise.training.policy.model_folder import plain_model

    try:
        trained = load_trained(path, which)
    except ValueError as error:
        fail(str(error))
    return Agent(recipe, plain_model(trained.policy), f"{path}, step {trained.step}")


def run_recipe(run: Path, overrides: Sequence[str], *, trust: bool) -> "Recipe":
    """Return the recipe of a run with the overrides, after the user has agreed to what it names."""
    from turnwise.config import override_recipe, parse_settings
    from turnwise.records.folder import RunFolder

    try:
        kept = RunFolder.read(run).recipe
        changed = override_recipe(kept, parse_settings(overrides))
    except ValueError as error:
        fail(str(error))
    require_trust(run, kept, changed, overrides, is_given=trust)
    return changed


def check_run(path: Path) -> None:
    """Exit unless `path` is a run's folder; this is checked before importing torch, which takes seconds."""
    from turnwise.records.folder import RunFolder

    try:
        RunFolder.read(path)
    except ValueError as error:
        fail(str(error))


def chosen(best: bool, step: int | None) -> int | Literal["best"] | None:
    """Return which checkpoint is meant; None is the best on validation, or the last without validations."""
    if best and step is not None:
        fail("--best and --step name different checkpoints")
    return "best" if best else step


def run_async(work: Coroutine[None, None, Result]) -> Result:
    """Return the work's result; Ctrl-C, SIGTERM, a closed terminal and a broken pipe end it with code 130."""
    from turnwise.rollout.collector import CollectionFailed
    from turnwise.system.ranks import RankFailed

    try:
        with interrupted_as_by_ctrl_c():
            return asyncio.run(work)
    except (ValueError, CollectionFailed, RankFailed) as error:
        fail(str(error))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(130) from None
