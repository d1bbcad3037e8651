"""The tools of our own servers, known from tools.json without starting them."""

from turnwise.mcp.pool import is_offered
from turnwise.mcp.spec import ServerSpec
from turnwise.servers.backends import served_name
from turnwise.servers.contract import WRITES, contract
from turnwise.types import Tool


def declared_tools(spec: ServerSpec) -> tuple[Tool, ...] | None:
    """What a server of ours offers under the spec's `allow` and `deny`; None for anybody else's server."""
    name = served_name(spec)
    if name is None:
        return None
    tools = (
        Tool(
            name=tool["name"],
            description=tool["description"],
            input_schema=tool["inputSchema"],
            server=spec.name,
            server_tool=tool["name"],
            is_read_only=tool["name"] not in WRITES,
        )
        for tool in contract()["servers"][name]["tools"]
    )
    return tuple(tool for tool in tools if is_offered(tool, spec.options.allow, spec.options.deny))
