"""What a server says of itself when it is connected: its tools, and what it promises."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import mcp_types as wire
from mcp import Client

from turnwise.mcp.calls.schemas import Schema
from turnwise.mcp.episode_meta import CONCURRENCY, EXTENSION, STATELESS
from turnwise.mcp.spec import ServerSpec

logger = logging.getLogger(__name__)

_MAX_PAGES = 100
_MAX_TOOLS = 1_000
"""No prompt holds more tools."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """A connected server's own description."""

    tools: tuple[wire.Tool, ...] = ()
    output_schemas: Mapping[str, Schema] = field(default_factory=dict)
    protocol_version: str = ""
    is_keyed: bool = False
    """Whether the server keeps each episode's state apart, and drops it on request."""
    is_stateless: bool = False
    """Whether the server promises to keep nothing from one call to the next."""
    max_concurrency: int = 1
    """How many calls may be in flight: the number that it advertises, at most that of its spec."""

    @property
    def keeps_episodes_apart(self) -> bool:
        """Whether the server itself promises that no episode sees the changes of another."""
        return self.is_keyed or self.is_stateless

    def output_problem(self, tool: str, result: wire.CallToolResult) -> str:
        """Why structured content is missing or breaks the tool's own output schema; empty if all is well."""
        schema = self.output_schemas.get(tool)
        if schema is None or result.is_error:
            return ""
        if result.structured_content is None:
            return "the tool has an output schema, and its result no structure"
        error = schema.first_error(result.structured_content)
        return (
            "" if error is None else f"the result breaks the tool's own output schema: {error.message[:200]}"
        )


async def introduce(client: Client, spec: ServerSpec, clean: Callable[[str], str]) -> Introduction:
    """Read the server's tools, protocol version, isolation promise and concurrency."""
    listed = await _listed(client)
    if len(listed) > _MAX_TOOLS:
        logger.warning("server %s lists %s tools; the first %s are taken", spec.name, len(listed), _MAX_TOOLS)
    tools = tuple(tool for tool in listed[:_MAX_TOOLS] if _can_call(tool, spec.name, clean))
    # The SDK's check of the output has no time limit; ours has a budget.
    client.session.validate_tool_result = _accept  # type: ignore[method-assign]
    promise = (client.server_capabilities.extensions or {}).get(EXTENSION)
    is_stateless = promise is not None and STATELESS.items() <= promise.items()
    advertised, most = (promise or {}).get(CONCURRENCY), spec.options.max_concurrency
    return Introduction(
        tools,
        output_schemas={
            tool.name: Schema(f"{spec.name}: {clean(tool.name)}", tool.output_schema)
            for tool in tools
            if tool.output_schema is not None
        },
        protocol_version=client.protocol_version,
        is_keyed=promise is not None and not is_stateless,
        is_stateless=is_stateless,
        max_concurrency=min(advertised, most) if isinstance(advertised, int) and advertised >= 1 else most,
    )


async def _listed(client: Client) -> list[wire.Tool]:
    tools: list[wire.Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _can_call(tool: wire.Tool, server: str, clean: Callable[[str], str]) -> bool:
    """Return False for a tool that runs only as a task: its server refuses plain calls like ours."""
    if tool.execution is None or tool.execution.task_support != "required":
        return True
    logger.warning("server %s: tool %s runs only as a task; it is left out", server, clean(tool.name))
    return False


async def _accept(name: str, result: wire.CallToolResult) -> None:
    """Replaces the SDK's own check of a result."""
