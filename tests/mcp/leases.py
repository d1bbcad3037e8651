"""Specs of test servers, and calls through a lease on them."""

import contextlib
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.mcp.toolbox import LeasedToolbox
from turnwise.types import ToolCall, ToolResult

SERVERS = Path(__file__).parent / "servers"


def spec_of(name: str, block: Mapping[str, Any], directory: Path | None = None) -> ServerSpec:
    """The spec of one block of an `mcp.json`."""
    [spec] = parse({name: block}, {}, directory=directory or Path.cwd())
    return spec


def script_spec(name: str, *args: str, env: Mapping[str, str] | None = None, **options: Any) -> ServerSpec:
    """The spec of `servers/NAME.py`, started by a fresh Python."""
    command = {"command": sys.executable, "args": [str(SERVERS / f"{name}.py"), *args]}
    return spec_of(name, {**command, "env": dict(env or {}), "turnwise": options})


async def ask(toolbox: Any, tool: str, /, **arguments: Any) -> ToolResult:
    """Make one call."""
    result: ToolResult
    [result] = await toolbox.call([ToolCall("1", tool, arguments)])
    return result


@contextlib.asynccontextmanager
async def leased(*specs: ServerSpec, episode: str = "e", **settings: Any) -> AsyncIterator[LeasedToolbox]:
    """A lease on these servers, in a separate pool."""
    names = [spec.name for spec in specs]
    async with Pool(specs, **settings) as pool, pool.lease(names, episode) as toolbox:
        yield toolbox
