"""Ask before a run's recipe starts what it names, unless the run is known to be the user's own."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import fail

if TYPE_CHECKING:
    from turnwise.setup.consent import Consent

Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Start what the recipe of a run made by someone else names, without asking.",
    ),
]


def consent(*, trust: bool) -> "Consent | None":
    """Return what asks the user on their terminal; None if they trust the run."""
    return None if trust else _ask


def _ask(question: str) -> None:
    from turnwise.system.terminal import printable

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        fail(f"{question}\nNothing was started. --trust starts it.")
    typer.echo(printable(question), err=True)
    if not typer.confirm("Go on?", err=True):
        fail("nothing was started")
