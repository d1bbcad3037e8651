"""The `turnwise` command: each subcommand parses its arguments, imports what it needs, and prints."""

import asyncio
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

if TYPE_CHECKING:
    from turnwise.mcp.spec import ServerSpec

app = typer.Typer(
    help="Train language models to use tools over many turns, against real MCP servers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

McpFile = Annotated[
    Path | None,
    typer.Argument(help="An mcp.json; ./mcp.json if there is one, else the five built-in servers."),
]
McpOption = Annotated[
    Path | None,
    typer.Option("--mcp", help="An mcp.json; ./mcp.json if there is one, else the five built-in servers."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


@app.command()
def tools(mcp: McpFile = None, as_json: AsJson = False) -> None:
    """List servers, their tools and schemas, and how many tokens each costs in a prompt.

    Example: turnwise tools ~/work/mcp.json
    """
    from turnwise.inspection import list_tools, print_listing

    try:
        listing = asyncio.run(list_tools(_specs(mcp)))
    except ValueError as error:
        _fail(str(error))
    if as_json:
        print(json.dumps(listing.as_json(), ensure_ascii=False, indent=1))
    else:
        print_listing(listing)
    if listing.failures:
        raise typer.Exit(1)


@app.command()
def call(
    tool: Annotated[str, typer.Argument(help="The tool's name, as `turnwise tools` prints it.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments, a JSON object.")] = "{}",
    mcp: McpOption = None,
    as_json: AsJson = False,
) -> None:
    """Call one tool on its real server and print what a model would read.

    Exit code: 0 result, 1 the call's own fault, 2 wrong usage, 3 infrastructure.

    Example: turnwise call execute_python '{"code": "6 * 7"}'
    """
    from turnwise.inspection import call_tool
    from turnwise.types import Fault

    try:
        parsed = json.loads(arguments)
    except json.JSONDecodeError as error:
        _fail(f"arguments: not JSON: {error}")
    if not isinstance(parsed, dict):
        _fail(f"arguments: expected a JSON object, got {arguments}")
    try:
        result = asyncio.run(call_tool(_specs(mcp), tool, parsed))
    except ValueError as error:
        _fail(str(error))
    if as_json:
        print(json.dumps({**asdict(result), "fault": result.fault}, ensure_ascii=False))
    else:
        print(result.content, file=sys.stderr if result.is_error else sys.stdout)
    raise typer.Exit({Fault.NONE: 0, Fault.MODEL: 1, Fault.INFRA: 3}[result.fault])


@app.command()
def serve(
    name: Annotated[str, typer.Argument(help="fmp, polygon, tavily, python or slack.")],
    backend: Annotated[str, typer.Option(help="auto (live if the key is set), embedded or live.")] = "auto",
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on, with --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on, with --http; 0 picks a free one.")] = 8000,
) -> None:
    """Run one of the five servers, over stdio or HTTP.

    Example: turnwise serve fmp --http --port 8001
    """
    from turnwise.mcp.serve import serve_http, serve_stdio
    from turnwise.servers.services import SERVERS, Backend, choose, open_service

    if name not in SERVERS:
        _fail(f"name: unknown server {name!r}; the servers are {', '.join(SERVERS)}")
    if backend not in list(Backend):
        _fail(f"backend: expected auto, embedded or live, got {backend!r}")

    async def run() -> None:
        async with open_service(name, Backend(backend), os.environ) as service:
            await (serve_http(service, host=host, port=port) if http else serve_stdio(service))

    try:
        choose(name, Backend(backend), os.environ)
        asyncio.run(run())
    except ValueError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command()
def doctor(mcp: McpFile = None, as_json: AsJson = False) -> None:
    """Check this machine and the servers before a run; says what to install or change.

    Exit code 1 when something a run needs is missing. Secrets are never printed.
    """
    from turnwise.doctor import Level, examine, print_findings
    from turnwise.mcp.spec import environment

    findings = asyncio.run(examine(_specs(mcp), environment()))
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False, indent=1))
    else:
        print_findings(findings)
    if any(finding.level is Level.BAD for finding in findings):
        raise typer.Exit(1)


def _specs(path: Path | None) -> "tuple[ServerSpec, ...]":
    """The servers to use: the file given, the one in this directory, or the five built-in ones."""
    from turnwise.mcp.spec import load
    from turnwise.servers.services import DEFAULT_FILE

    local = Path("mcp.json")
    chosen = path or (local if local.exists() else DEFAULT_FILE)
    try:
        return load(chosen)
    except ValueError as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    typer.echo(f"turnwise: {message}", err=True)
    raise typer.Exit(2)
