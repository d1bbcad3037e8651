"""Ask before a run's recipe starts what it names, unless the run is known to be the user's own."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import fail

if TYPE_CHECKING:
    from turnwise.config import Recipe

Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Start the commands and modules that a foreign run's recipe names, without asking.",
    ),
]


def require_trust(
    run: Path, recipe: "Recipe", changed: "Recipe", overrides: Sequence[str], *, is_given: bool
) -> None:
    """If the run's recipe names what this user has not agreed to, ask on a terminal or else refuse.

    `changed` is the run's recipe with the overrides. What an override names is not asked about.
    """
    from turnwise.records.run_marks import remember_agreed
    from turnwise.setup.trusted_runs import consent_question, not_agreed_to
    from turnwise.system.terminal import printable

    keys = [override.partition("=")[0].strip() for override in overrides]
    try:
        named = () if is_given else not_agreed_to(recipe, changed, keys)
    except ValueError as error:
        fail(str(error))
    if not named:
        return
    question = consent_question(run, named)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        fail(f"{question}\nNothing was started. --trust goes on with it.")
    typer.echo(printable(question), err=True)
    if not typer.confirm("Go on?", err=True):
        fail("nothing was started")
    remember_agreed(named)
