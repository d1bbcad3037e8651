"""What several subcommands take: the servers' file, JSON output, overrides, and how they end on a mistake."""

import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from turnwise.setup.servers import ReadyServers

_MCP_HELP = "An mcp.json; ./mcp.json if there is one, else the five built-in servers."
McpFile = Annotated[Path | None, typer.Argument(help=_MCP_HELP)]
McpOption = Annotated[Path | None, typer.Option("--mcp", help=_MCP_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
Overrides = Annotated[
    list[str], typer.Option("--set", help="Change one key of the recipe, e.g. --set rollout.group_size=4.")
]


def servers_in(
    path: Path | None, *, live: Sequence[str] = (), live_writes: Sequence[str] = ()
) -> "ReadyServers":
    """Load the servers of the given file, else of ./mcp.json, else the five built-in ones."""
    from turnwise.setup.servers import load_servers

    return load_servers(mcp_file(path), live=live, live_writes=live_writes)


def print_notes(servers: "ReadyServers") -> None:
    """Print on stderr which servers are live and which keys are unused."""
    from turnwise.system.terminal import printable

    for note in servers.notes:
        typer.echo(printable(note), err=True)


def mcp_file(path: Path | None) -> Path:
    from turnwise.worlds.market.services import DEFAULT_FILE

    local = Path("mcp.json")
    return path or (local if local.exists() else DEFAULT_FILE)


def fail(message: str) -> NoReturn:
    """Print the user's mistake on stderr and exit with code 2; under --debug, print the traceback too."""
    from turnwise.cli.logs import is_debug
    from turnwise.system.environment import known_redaction
    from turnwise.system.terminal import printable

    if is_debug() and sys.exc_info()[0] is not None:
        typer.echo(printable(known_redaction().redact(traceback.format_exc())), err=True)
    # it may quote a file, a server or a model
    typer.echo(f"turnwise: {printable(message)}", err=True)
    raise typer.Exit(2)
