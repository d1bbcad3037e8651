"""`turnwise tools`, `call` and `serve`: the servers, from the command line."""

import asyncio
import contextlib
import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from turnwise.cli.options import AsJson, McpFile, McpOption, fail, print_notes, servers_in

if TYPE_CHECKING:
    from turnwise.setup.servers import ReadyServers


def tools(mcp: McpFile = None, as_json: AsJson = False) -> None:
    """List servers, their tools, and how many tokens a tool costs.

    Example: turnwise tools ~/work/mcp.json
    """
    from turnwise.cli.tools import print_listing
    from turnwise.mcp.listing import list_tools

    servers = servers_in(mcp)
    print_notes(servers)
    listing = asyncio.run(list_tools(servers.specs))
    if as_json:
        print(json.dumps(listing.as_json(), ensure_ascii=False, indent=1))
    else:
        print_listing(listing)
    if listing.failures:
        raise typer.Exit(1)


def call(
    tool: Annotated[
        str, typer.Argument(help="The tool's name, as `turnwise tools` prints it, or SERVER__TOOL.")
    ],
    arguments: Annotated[str, typer.Argument(help="Its arguments, a JSON object.")] = "{}",
    mcp: McpOption = None,
    live: Annotated[
        list[str], typer.Option(help="A built-in server that calls its real provider; embedded by default.")
    ] = [],  # noqa: B006 (typer reads it once, nobody changes it)
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="With --live: its tools may write to the provider.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Call one tool on its real server and print what a model reads.

    If one of our own servers has the tool, only that one is started; SERVER__TOOL names any other.

    Exit code: 0 result, 1 the call's own fault, 2 wrong usage, 3 infrastructure.

    Example: turnwise call execute_python '{"code": "6 * 7"}'
    """
    from turnwise.cli.tools import call_tool
    from turnwise.types import Fault

    try:
        parsed = json.loads(arguments)
    except (json.JSONDecodeError, RecursionError) as error:
        fail(f"arguments: not JSON: {error}")
    if not isinstance(parsed, dict):
        fail(f"arguments: expected a JSON object, got {arguments}")
    servers = servers_in(mcp, live=live, live_writes=live if allow_writes else ())
    for server in servers.live:
        if tool in server.withheld:
            fail(f"{tool} is withheld: {server.name} is live and may not write; --allow-writes allows it")
    _note_unused_key(servers, tool)
    result = asyncio.run(call_tool(servers.specs, tool, parsed))
    if as_json:
        print(json.dumps({**asdict(result), "fault": result.fault}, ensure_ascii=False))
    else:
        print(result.content, file=sys.stderr if result.is_error else sys.stdout)
    raise typer.Exit({Fault.NONE: 0, Fault.MODEL: 1, Fault.INFRA: 3}[result.fault])


def _note_unused_key(servers: "ReadyServers", tool: str) -> None:
    """Say on stderr that a key of the tool's provider was found and is not used."""
    from turnwise.setup.servers import declared_tools

    for spec in servers.specs:
        key = servers.unused_keys.get(spec.name)
        if key and any(found.name == tool for found in declared_tools(spec) or ()):
            words = f"{key} is set but not used: {spec.name} answers from the embedded world"
            typer.echo(f"{words}; --live {spec.name} calls the real service", err=True)


def serve(
    name: Annotated[
        str,
        typer.Argument(help="fmp, polygon, tavily, python or slack; or world-SEED-NUMBER, a generated one."),
    ],
    backend: Annotated[
        str, typer.Option(help="embedded (the synthetic world) or live (the real provider, with its key).")
    ] = "embedded",
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="With live: tools may write to the provider.")
    ] = False,
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on, with --http.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on, with --http; 0 picks a free one.", min=0, max=65535)
    ] = 8000,
) -> None:
    """Serve one of the five servers, or a generated one, to any client.

    Over stdio, or with --http over HTTP.

    If other machines can reach it (--host), clients must send the token in TURNWISE_SERVE_TOKEN.

    Example: turnwise serve fmp --http --port 8001
    """
    from turnwise.mcp.serve import TOKEN_VARIABLE, serve_http, serve_stdio
    from turnwise.system.environment import environment
    from turnwise.system.net.admission import TokenRequired
    from turnwise.worlds.generated.world import is_world_name, named_world, service_of
    from turnwise.worlds.market.services import SERVERS, Backend, check_backend, open_service

    is_world = is_world_name(name)
    if name not in SERVERS and not is_world:
        fail(f"name: unknown server {name!r}; the servers are {', '.join(SERVERS)}")
    if backend not in list(Backend):
        fail(f"backend: expected embedded or live, got {backend!r}")
    chosen = Backend(backend)
    variables = environment() if chosen is Backend.LIVE else os.environ

    async def run() -> None:
        async with (
            contextlib.nullcontext(service_of(named_world(name)))
            if is_world
            else open_service(name, chosen, variables, may_write=allow_writes)
        ) as service:
            if not http:
                await serve_stdio(service)
                return
            await serve_http(service, host=host, port=port, token=os.environ.get(TOKEN_VARIABLE, ""))

    try:
        if not is_world:
            check_backend(name, chosen, variables, may_write=allow_writes)
        asyncio.run(run())
    except ValueError as error:
        hint = f" (set {TOKEN_VARIABLE})" if isinstance(error, TokenRequired) else ""
        fail(f"{error}{hint}")
