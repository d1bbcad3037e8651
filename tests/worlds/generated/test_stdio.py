"""Generated worlds over stdio with the SDK's own client, as any MCP client would use them."""

import sys

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from turnwise.worlds.generated.world import named_world, world_name


async def check_world(number: int) -> None:
    """List the tools and call every read that needs no argument, in a server process."""
    world = named_world(world_name(0, number))
    command = StdioServerParameters(command=sys.executable, args=["-m", "turnwise", "serve", world.name])
    async with Client(stdio_client(command)) as client:
        listed = (await client.list_tools()).tools
        assert [tool.name for tool in listed] == [tool.name for tool in world.tools]
        assert [tool.input_schema for tool in listed] == [tool.input_schema for tool in world.tools]
        for tool in world.tools:
            if tool.operation.is_read_only and "required" not in tool.input_schema:
                result = await client.call_tool(tool.name, {})
                assert not result.is_error, (world.name, tool.name, result)
                assert getattr(result.content[0], "text", "").strip()
            elif not tool.operation.is_read_only:
                result = await client.call_tool(tool.name, {})
                assert result.is_error, (world.name, tool.name, "no argument, and no error")


@pytest.mark.parametrize("number", [0, 17])
async def test_the_official_client_lists_and_calls_a_world(number: int) -> None:
    await check_world(number)
