"""Bind a backend to exactly the tools that tools.json declares for a server."""

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any

from turnwise.mcp.serve import Handler, ServedTool, Service, ToolError

WRITES = {"send_slack_message", "store_execution_result"}
"""The tools that change state; every other tool is read-only."""

IDEMPOTENT_WRITES = {"store_execution_result"}


@functools.cache
def contract() -> Mapping[str, Any]:
    """Return tools.json: each server's key variable, and its tools with their schemas."""
    parsed: dict[str, Any] = json.loads(
        files("turnwise.worlds.market").joinpath("tools.json").read_text("utf-8")
    )
    return parsed


def service_of(
    name: str,
    backend: object,
    *,
    drop: Callable[[str], Awaitable[None]] | None = None,
    may_write: bool = True,
    concurrency: int | None = None,
) -> Service:
    """Bind each tool to the backend's async method of the same name.

    A method takes the schema's properties as keyword arguments, with the schema's defaults filled in. If
    `drop` is given, the service keeps state per episode and every method also takes `episode`. Without
    `may_write`, the tools in WRITES refuse every call before it reaches the backend. `concurrency` is the
    number of calls the backend handles at once.
    """
    tools = [
        ServedTool(
            name=tool["name"],
            description=tool["description"],
            input_schema=tool["inputSchema"],
            handler=_handler(getattr(backend, tool["name"]), tool["inputSchema"], is_keyed=drop is not None)
            if may_write or tool["name"] not in WRITES
            else _refusal(tool["name"]),
            is_read_only=tool["name"] not in WRITES,
            is_idempotent=tool["name"] not in WRITES or tool["name"] in IDEMPOTENT_WRITES,
        )
        for tool in contract()["servers"][name]["tools"]
    ]
    return Service(name=name, tools=tools, drop=drop, concurrency=concurrency)


def _refusal(tool: str) -> Handler:
    async def refuse(_arguments: Mapping[str, Any], _episode: str) -> Any:
        raise ToolError(f"{tool} is switched off: this server only reads from the live service")

    return refuse


def _handler(method: Callable[..., Awaitable[Any]], schema: Mapping[str, Any], *, is_keyed: bool) -> Handler:
    defaults = {key: spec["default"] for key, spec in schema["properties"].items() if "default" in spec}

    async def handle(arguments: Mapping[str, Any], episode: str) -> Any:
        missing = [name for name in schema["required"] if name not in arguments]
        if missing:
            raise ToolError(f"missing argument: {', '.join(missing)}")
        known = schema["properties"]
        if unknown := [
            name[:50] for name in arguments if name not in known
        ]:  # ignored, it would ask another question
            raise ToolError(
                f"unknown argument: {', '.join(unknown[:3])}; the arguments are {', '.join(known)}"
            )
        keyed = {"episode": episode} if is_keyed else {}
        return await method(**{**defaults, **arguments, **keyed})

    return handle
