"""`turnwise tools`, `call` and `serve`: the servers, from the command line."""

import asyncio
import json
import os
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from turnwise.cli.options import AsJson, McpFile, McpOption, fail, specs_of


def tools(mcp: McpFile = None, as_json: AsJson = False) -> None:
    """List servers, their tools and schemas, and how many tokens each costs in a prompt.

    Example: turnwise tools ~/work/mcp.json
    """
    from turnwise.inspection import list_tools, print_listing

    try:
        listing = asyncio.run(list_tools(specs_of(mcp)))
    except ValueError as error:
        fail(str(error))
    if as_json:
        print(json.dumps(listing.as_json(), ensure_ascii=False, indent=1))
    else:
        print_listing(listing)
    if listing.failures:
        raise typer.Exit(1)


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
        fail(f"arguments: not JSON: {error}")
    if not isinstance(parsed, dict):
        fail(f"arguments: expected a JSON object, got {arguments}")
    try:
        result = asyncio.run(call_tool(specs_of(mcp), tool, parsed))
    except ValueError as error:
        fail(str(error))
    if as_json:
        print(json.dumps({**asdict(result), "fault": result.fault}, ensure_ascii=False))
    else:
        print(result.content, file=sys.stderr if result.is_error else sys.stdout)
    raise typer.Exit({Fault.NONE: 0, Fault.MODEL: 1, Fault.INFRA: 3}[result.fault])


def serve(
    name: Annotated[str, typer.Argument(help="fmp, polygon, tavily, python or slack.")],
    backend: Annotated[str, typer.Option(help="auto (live if the key is set), embedded or live.")] = "auto",
    http: Annotated[bool, typer.Option("--http", help="Streamable HTTP instead of stdio.")] = False,
    host: Annotated[str, typer.Option(help="Address to listen on, with --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on, with --http; 0 picks a free one.")] = 8000,
) -> None:
    """Run one of the five servers, over stdio or HTTP.

    Where others can reach it (--host), clients must send the token that TURNWISE_SERVE_TOKEN holds.

    Example: turnwise serve fmp --http --port 8001
    """
    from turnwise.mcp.serve import TOKEN_VARIABLE, serve_http, serve_stdio
    from turnwise.servers.services import SERVERS, Backend, choose, open_service

    if name not in SERVERS:
        fail(f"name: unknown server {name!r}; the servers are {', '.join(SERVERS)}")
    if backend not in list(Backend):
        fail(f"backend: expected auto, embedded or live, got {backend!r}")

    async def run() -> None:
        async with open_service(name, Backend(backend), os.environ) as service:
            if not http:
                await serve_stdio(service)
                return
            await serve_http(service, host=host, port=port, token=os.environ.get(TOKEN_VARIABLE, ""))

    try:
        choose(name, Backend(backend), os.environ)
        asyncio.run(run())
    except ValueError as error:
        hint = f" (set {TOKEN_VARIABLE})" if "token is needed" in str(error) else ""
        fail(f"{error}{hint}")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
