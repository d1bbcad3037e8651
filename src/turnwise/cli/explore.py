"""`turnwise explore`: verified tasks for any servers, from the command line."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from turnwise.cli.options import McpFile, fail, servers_in


def explore(
    mcp: McpFile = None,
    out: Annotated[Path, typer.Option(help="Folder for the task files and the report.")] = Path("tasks"),
    tasks: Annotated[int, typer.Option(help="Stop at this number of tasks.", min=1)] = 300,
    minutes: Annotated[float, typer.Option(help="Stop after this time.", min=0.1)] = 5.0,
    pause: Annotated[
        float,
        typer.Option(
            help="Play all tasks once more after this time in seconds; what moved meanwhile is not asked.",
            min=0,
        ),
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="The same seed and server state give the same tasks.")] = 0,
    server: Annotated[
        list[str] | None,
        typer.Option("--server", metavar="NAME", help="Explore only this server; all by default."),
    ] = None,
    values: Annotated[
        Path | None,
        typer.Option(help='JSON object of values to try, by parameter name: {"ticker": ["AAPL", "MSFT"]}.'),
    ] = None,
    writes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Let the exploration change the real data of this server. Others keep private copies.",
        ),
    ] = None,
    writer: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="URL MODEL",
            help="Have a model choose the tasks that a person would want, word them and join some into "
            "conversations; only what it then solves is kept. URL: an OpenAI-compatible endpoint (key: "
            "OPENAI_API_KEY), or self to load the model here. Takes time beyond --minutes.",
        ),
    ] = None,
) -> None:
    """Find verified tasks for your servers, without a language model.

    It calls the tools, composes questions about the answers and keeps what it proves: the plan of every task
    was executed in fresh sessions, and shortcuts to its answer earn nothing.

    Again with the same --out, it goes on: tasks that still hold are kept, new ones are added. Ctrl-C and
    SIGTERM write what was found. The exit code is 1 if no task was found.

    Example: turnwise explore mcp.json --out tasks
    """
    from rich.console import Console

    from turnwise.api.exploring import model_source
    from turnwise.explore.command import ExploreCommand, user_values
    from turnwise.explore.options import ExploreOptions

    specs = servers_in(mcp).specs
    known = {spec.name for spec in specs}
    for name in (*(server or ()), *(writes or ())):
        if name not in known:
            fail(f"{name}: no such server; the servers are {', '.join(sorted(known))}")
    specs = tuple(spec for spec in specs if not server or spec.name in server)
    options = ExploreOptions(
        num_tasks=tasks,
        minutes=minutes,
        seed=seed,
        writable=tuple(writes or ()),
        values={} if values is None else user_values(values),
        pause_seconds=pause,
        writer=None if writer is None else model_source(*writer),
    )
    console = Console(emoji=False, highlight=False)
    command = ExploreCommand(specs, out, options, console, next_command=_init_command(mcp, out))
    if not command.run_here().tasks:
        raise typer.Exit(1)


def _init_command(mcp: Path | None, out: Path) -> str:
    """The command that writes a recipe for the tasks: `init` looks for them in the folder `tasks`."""
    folder = [str(out.parent)] if out.name == "tasks" and out.parent != Path() else []
    servers = ["--mcp", str(mcp)] if mcp is not None else []
    return f"{shlex.join(['turnwise', 'init', *folder, *servers, '--explore'])}   writes a recipe too"
