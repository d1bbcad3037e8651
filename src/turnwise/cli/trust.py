"""Ask before a run's recipe starts what it names, unless the run is known to be the user's own."""

import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import fail

if TYPE_CHECKING:
    from turnwise.config import Recipe

logger = logging.getLogger(__name__)

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
    from turnwise.assembly.trusted_runs import named_in
    from turnwise.runtime.terminal import printable
    from turnwise.tracking.run_marks import is_agreed_to, is_made_here, remember_agreed

    keys = [override.partition("=")[0].strip() for override in overrides]
    try:
        if is_given or is_made_here(recipe):
            return
        named = [item for item in named_in(changed) if not _is_replaced(item.key, keys)]
    except ValueError as error:
        fail(str(error))
    if is_agreed_to(named):
        return
    # one line per item: a line break in a command could pass for the end of the list
    lines = "\n".join(f"  {item.key}: {item.words}".replace("\n", "\\n") for item in named)
    question = f"{run} was not made by you on this machine. Its recipe would start or use:\n{lines}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        fail(f"{question}\nNothing was started. --trust goes on with it.")
    typer.echo(printable(question), err=True)
    if not typer.confirm("Go on?", err=True):
        fail("nothing was started")
    remember_agreed(named)


def keep_agreement(before: "Recipe", after: "Recipe") -> None:
    """Extend the user's agreement to their changes of a recipe that they had agreed to before."""
    from turnwise.assembly.trusted_runs import named_in
    from turnwise.tracking.run_marks import is_agreed_to, is_made_here, remember_agreed

    try:
        if not is_made_here(before) and is_agreed_to(named_in(before)):
            remember_agreed(named_in(after))
    except ValueError as error:  # an override replaced an mcp.json that does not exist
        logger.info("nothing was agreed to: %s", error)


def _is_replaced(key: str, overridden: Sequence[str]) -> bool:
    """Return whether an override sets this key or the section that contains it."""
    return any(key == other or key.startswith(f"{other}.") for other in overridden)
