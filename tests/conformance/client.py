"""The client under test of the conformance suites.

A suite runs `python client.py URL` with MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT set, and judges
what arrives at its server. The client exits with 1 if a result is not what it should be.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from turnwise.mcp.pool import Pool
from turnwise.mcp.session import Session
from turnwise.mcp.spec import ServerSpec
from turnwise.mcp.toolbox import LeasedToolbox
from turnwise.system.busy_clock import BusyClock
from turnwise.types import Cause, ToolCall


async def call(toolbox: LeasedToolbox, tool: str, arguments: Mapping[str, Any]) -> str:
    [result] = await toolbox.call([ToolCall("call", tool, arguments)])
    assert result.cause is Cause.OK, f"{tool}: {result.cause}: {result.content}"
    return result.content


async def connect_only(toolbox: LeasedToolbox) -> None:
    """A lease initialises the session and lists the tools."""


async def call_every_tool(toolbox: LeasedToolbox) -> None:
    assert toolbox.tools
    for tool in toolbox.tools:
        await call(toolbox, tool.name, {})


async def add_numbers(toolbox: LeasedToolbox) -> None:
    assert "8" in await call(toolbox, "add_numbers", {"a": 5, "b": 3})


async def call_valid_tool(toolbox: LeasedToolbox) -> None:
    assert [tool.name for tool in toolbox.tools] == ["valid_tool"]
    await call(toolbox, "valid_tool", {"region": "eu-west1"})


async def look_up_user(toolbox: LeasedToolbox) -> None:
    """The schema refers to the network, which must not be used to check the arguments."""
    [result] = await toolbox.call(
        [ToolCall("call", "lookup_user", {"id": "user-1", "profile": {"name": "Ada"}})]
    )
    assert result.cause is not Cause.BAD_ARGUMENTS, result.content


async def echo_schema(toolbox: LeasedToolbox) -> None:
    [schema] = [tool.input_schema for tool in toolbox.tools if tool.name == "json_schema_2020_12_tool"]
    await call(toolbox, "json_schema_echo", {"schema": schema})


async def call_tools_that_elicit(toolbox: LeasedToolbox) -> None:
    """The two tools that elicit are refused, and the others still work."""
    turn = [ToolCall(tool.name, tool.name, {}) for tool in toolbox.tools]
    results = {result.call_id: result for result in await toolbox.call(turn)}
    assert results["test_mrtr_echo_state"].is_error
    assert results["test_mrtr_no_state"].is_error
    assert results["test_mrtr_unrelated"].content == "unrelated-ok"


async def call_from_context(session: Session) -> None:
    """Without a toolbox, which would refuse one call: it has a null where its schema wants a boolean."""
    for given in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        _, cause = await session.call(
            given["name"], given["arguments"], episode="conformance", clock=BusyClock()
        )
        assert cause is Cause.OK, cause


ON_TOOLBOX: Mapping[str, Callable[[LeasedToolbox], Awaitable[None]]] = {
    "initialize": connect_only,
    "tools_call": add_numbers,
    "sse-retry": call_every_tool,
    "request-metadata": connect_only,
    "http-standard-headers": call_every_tool,
    "http-invalid-tool-headers": call_valid_tool,
    "json-schema-ref-no-deref": look_up_user,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2322-client-request-state": call_tools_that_elicit,
}
ON_SESSION: Mapping[str, Callable[[Session], Awaitable[None]]] = {"http-custom-headers": call_from_context}


async def with_toolbox(server: ServerSpec, act: Callable[[LeasedToolbox], Awaitable[None]]) -> None:
    async with Pool([server]) as pool, pool.lease([server.name], "conformance") as toolbox:
        await act(toolbox)


async def with_session(server: ServerSpec, act: Callable[[Session], Awaitable[None]]) -> None:
    session = Session(server, None, lambda text: text)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(session.run())
        await session.wait_ready()
        await act(session)
        await session.close()


def main() -> None:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    server = ServerSpec(name="conformance", url=sys.argv[-1])
    if scenario in ON_SESSION:
        asyncio.run(with_session(server, ON_SESSION[scenario]))
    else:
        asyncio.run(with_toolbox(server, ON_TOOLBOX[scenario]))


if __name__ == "__main__":
    main()
