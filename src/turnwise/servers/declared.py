"""The tools of our own servers, known from tools.json without starting them."""

from collections.abc import Sequence
from pathlib import PurePath

from turnwise.mcp.pool import is_offered
from turnwise.mcp.spec import ServerSpec
from turnwise.servers.contract import WRITES, contract
from turnwise.types import Tool


def declared_tools(spec: ServerSpec) -> tuple[Tool, ...] | None:
    """What a server of ours offers under the spec's `allow` and `deny`; None for anybody else's server."""
    name = _own_name(spec)
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


def _own_name(spec: ServerSpec) -> str | None:
    """NAME of `turnwise serve NAME …` or `python -m turnwise serve NAME …`."""
    program: Sequence[str] = (PurePath(spec.command or "").name, *spec.args)
    if program[1:3] == ("-m", "turnwise"):
        program = program[2:]
    is_own = len(program) > 2 and program[:2] == ("turnwise", "serve")
    return program[2] if is_own and program[2] in contract()["servers"] else None
