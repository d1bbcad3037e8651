"""What `turnwise tools` and `turnwise call` print: listings with their costs, and the result of one call."""

import difflib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from turnwise.mcp.calls.results import Sanitiser
from turnwise.mcp.listing import ToolListing, num_tokens
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import ServerSpec
from turnwise.setup.servers import declared_tools
from turnwise.system.terminal import counted, wrapped
from turnwise.types import Tool, ToolCall, ToolResult, qualified_name

logger = logging.getLogger(__name__)

_INDENT = 6 * " "


async def call_tool(specs: Sequence[ServerSpec], tool: str, arguments: Mapping[str, Any]) -> ToolResult:
    """Call one tool as an episode would, starting only the servers needed to find it.

    `server__tool` names the server to start. ValueError if no server has the tool.
    """
    async with Pool(specs) as pool:
        failures: dict[str, ConnectFailed] = {}
        for servers in _where_to_look(specs, tool):
            failures |= await pool.connect(servers)
            found = _find(pool.tools, tool)
            if found is not None:
                _warn_of_copies(pool, found)
                async with pool.lease([found.server], "call") as toolbox:
                    [result] = await toolbox.call([ToolCall("call", found.name, arguments)])
                    return result
        down = "".join(f"\n{error}" for error in failures.values())
        raise ValueError(f"{_unknown(pool.tools, tool)}{down}")


def _warn_of_copies(pool: Pool, tool: Tool) -> None:
    """Warn that a call which writes changes a private copy, not the real files."""
    exposed = pool.exposure(tool.server)
    if tool.is_read_only or not (exposed.private or exposed.is_enclosed):
        return
    logger.warning(
        "this call works on a private copy of %s%s, and its changes are not kept; "
        '"turnwise": {"data": "real"} in the entry of mcp.json uses the real files and services',
        ", ".join(exposed.private) or "your files",
        " without network" if exposed.network == "no network" else "",
    )


def _where_to_look(specs: Sequence[ServerSpec], tool: str) -> Iterator[list[str]]:
    """Yield servers to start: first those that prefix the name or declare the tool, then the rest.

    ValueError if all servers are our own and none declares the tool.
    """
    declared = {spec.name: declared_tools(spec) for spec in specs}
    likely = [
        spec.name
        for spec in specs
        if tool.startswith(qualified_name(spec.name, "")) or _find(declared[spec.name] or (), tool)
    ]
    if likely:
        yield likely
    elif None not in declared.values():
        raise ValueError(_unknown([tool for tools in declared.values() for tool in tools or ()], tool))
    rest = [spec.name for spec in specs if spec.name not in likely]
    if rest:
        yield rest


def _find(tools: Sequence[Tool], name: str) -> Tool | None:
    """Find a tool by the name that an episode uses, or by `server__tool`."""
    return next((tool for tool in tools if name in (tool.name, tool.qualified_name)), None)


def _unknown(tools: Sequence[Tool], name: str) -> str:
    clean = Sanitiser().clean
    same = [tool.name for tool in tools if tool.server_tool == name]
    if same:
        return clean(f"tool {name!r} is on several servers: use one of {', '.join(same)}")
    names = [tool.name for tool in tools]
    near = difflib.get_close_matches(name, names, n=1)
    if not names:
        return clean(f"no tool {name!r}: no server has any")
    hint = f"; did you mean {near[0]!r}? The tools are" if near else "; the tools are"
    return clean(f"no tool {name!r}{hint} {', '.join(names)}")


def print_listing(listing: ToolListing, console: Console | None = None) -> None:
    """Print every tool; markup and escapes in the servers' texts are not interpreted."""
    console = console or Console(emoji=False, highlight=False)

    def say(line: str, style: str = "") -> None:
        console.print(Text(line, style), soft_wrap=True)

    for server, tools in listing.tools.items():
        total = sum(num_tokens(tool) for tool in tools)
        isolation = listing.isolation[server]
        say(f"{server}: {counted(len(tools), 'tool')}, about {total:,} tokens, isolation {isolation}", "bold")
        say(f"  {listing.exposures[server]}", "dim")
        for tool in tools:
            for line in _described(tool, console.width):
                say(line)
    if listing.tools:
        say("* may change something: calls to its server in one turn keep their order", "dim")
    for message in listing.failures.values():
        say(message, "red")
    if not listing.tools and not listing.failures:
        say("no servers: mcp.json names none")


def _described(tool: Tool, width: int) -> Iterator[str]:
    """Yield the name and cost as one line, then arguments and description, wrapped."""
    clean = Sanitiser().clean
    name = clean(tool.name if tool.is_read_only else f"{tool.name} *")
    yield f"  {name}  ({num_tokens(tool):,} tokens)"
    for text in (_signature(tool), tool.description):
        yield from (_INDENT + line for line in wrapped(clean(text), width - len(_INDENT)))


def _signature(tool: Tool) -> str:
    """Return `symbol, limit=10, period?`: required plain, defaults shown, optional with a question mark."""
    required = tool.input_schema.get("required", ())
    parts = []
    for name, schema in tool.input_schema.get("properties", {}).items():
        default = schema.get("default") if isinstance(schema, dict) else None
        if name in required:
            parts.append(name)
        else:
            parts.append(f"{name}?" if default is None else f"{name}={default}")
    return ", ".join(parts)
