"""Reads what a command works on, a recipe or a run, and runs that work; mistakes end it in one line."""

import asyncio
import contextlib
import shlex
import sys
import tempfile
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from turnwise.cli.options import fail
from turnwise.system.interruption import interrupted_as_by_ctrl_c

if TYPE_CHECKING:
    from turnwise.config import Recipe
    from turnwise.setup.request import RunRequest

Best = Annotated[
    bool,
    typer.Option("--best", help="Fail unless a validation chose the checkpoint; then the default."),
]
Step = Annotated[
    int | None,
    typer.Option(help="Use the run's checkpoint after this many steps; by default the best on validation."),
]

Result = TypeVar("Result")


def requested(
    source: Path | None,
    overrides: Sequence[str],
    *,
    run: Path | None = None,
    changes: Mapping[str, Any] = {},
) -> "RunRequest":
    """Return the request for a recipe, or for a run; `changes` are those of other options than --set."""
    from turnwise.config import parse_settings
    from turnwise.setup.request import RunRequest

    command = shlex.join(["turnwise", *sys.argv[1:]])
    return RunRequest(source, {**parse_settings(overrides), **changes}, run=run, command=command)


def requested_agent(
    path: Path | None,
    overrides: Sequence[str],
    changes: Mapping[str, Any] = {},
) -> "RunRequest":
    """Return the request for a recipe's file, or for a run if the path is a folder."""
    is_run = path is not None and path.is_dir()
    source, run = (None, path) if is_run else (path, None)
    return requested(source, overrides, run=run, changes=changes)


def read_recipe(path: Path | None, overrides: Sequence[str]) -> "Recipe":
    """Return the recipe of a file as written, not adapted to this machine."""
    return requested(path, overrides).read(None)


@contextlib.contextmanager
def with_generated_tasks(recipe: "Recipe") -> Iterator["Recipe"]:
    """Yield the recipe with the tasks that its environment generates in files, for as long as the block runs.

    Raises ValueError if the recipe has an environment and there are no training tasks at all.
    """
    from turnwise.setup.tasks import may_make_tasks, with_own_tasks

    with contextlib.ExitStack() as exits:
        if may_make_tasks(recipe):
            folder = exits.enter_context(tempfile.TemporaryDirectory(prefix="turnwise-tasks-"))
            recipe = with_own_tasks(recipe, Path(folder))
        yield recipe


def check_run(path: Path) -> None:
    """Exit unless `path` is a run's folder; this is checked before importing torch, which takes seconds."""
    from turnwise.records.folder import RunFolder

    try:
        RunFolder.read(path)
    except ValueError as error:
        fail(str(error))


def chosen(best: bool, step: int | None, path: Path | None) -> int | Literal["best"] | None:
    """Return which checkpoint of a run is meant; None is the best on validation, or the last without any."""
    if best and step is not None:
        fail("--best and --step name different checkpoints")
    which: int | Literal["best"] | None = "best" if best else step
    if which is not None and (path is None or not path.is_dir()):
        fail(f"--best and --step choose a checkpoint of a run, and {path or 'the default recipe'} is not one")
    return which


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
