"""The tools of the five servers as a client lists them, without a server."""

from turnwise.types import Tool
from turnwise.worlds.market.contract import WRITES, contract


def contract_tools() -> tuple[Tool, ...]:
    return tuple(
        Tool(
            name=tool["name"],
            description=tool["description"],
            input_schema=tool["inputSchema"],
            server=server,
            server_tool=tool["name"],
            is_read_only=tool["name"] not in WRITES,
        )
        for server, block in contract()["servers"].items()
        for tool in block["tools"]
    )
