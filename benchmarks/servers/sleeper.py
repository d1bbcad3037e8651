"""An MCP server for benchmarks with three tools: echo, sleep, and a counter per episode."""

import asyncio
from collections import Counter
from typing import Any

from turnwise.mcp.serve import ServedTool, Service, serve_stdio

counts: Counter[str] = Counter()


async def echo(arguments: Any, _episode: str) -> str:
    return str(arguments["text"])


async def sleep(arguments: Any, _episode: str) -> str:
    await asyncio.sleep(arguments["seconds"])
    return "awake"


async def count(_arguments: Any, episode: str) -> int:
    counts[episode] += 1
    return counts[episode]


async def drop(episode: str) -> None:
    del counts[episode]


def _tool(name: str, handler: Any, properties: dict[str, Any]) -> ServedTool:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return ServedTool(name, name, schema, handler, is_read_only=name != "count", is_idempotent=False)


SERVICE = Service(
    "sleeper",
    [
        _tool("echo", echo, {"text": {"type": "string"}}),
        _tool("sleep", sleep, {"seconds": {"type": "number"}}),
        _tool("count", count, {}),
    ],
    drop=drop,
)

if __name__ == "__main__":
    asyncio.run(serve_stdio(SERVICE))
