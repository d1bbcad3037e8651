"""What tests of generated worlds share: calls on a fresh episode."""

from collections.abc import Mapping
from typing import Any

from turnwise.mcp.pool import Pool
from turnwise.types import ToolCall, ToolResult
from turnwise.worlds.generated.world import World, server_of


async def called(world: World, *calls: tuple[str, Mapping[str, Any]]) -> list[ToolResult]:
    """Return the results of these calls in one fresh episode, through the client of every run."""
    async with Pool([server_of(world)]) as pool, pool.lease([world.name], "episode") as toolbox:
        results = []
        for number, (name, arguments) in enumerate(calls):
            results += await toolbox.call([ToolCall(str(number), name, arguments)])
        return results
