"""A stateful server of ours for tests: notes kept per episode, slow reads, and a log of what ran when."""

import asyncio
import time
from collections import defaultdict
from typing import Any

from turnwise.mcp.serve import ServedTool, Service, ToolError, Unavailable, serve_stdio

notes: dict[str, list[str]] = defaultdict(list)
events: list[str] = []
started = time.monotonic()


async def write(arguments: Any, episode: str) -> str:
    events.append(f"write {arguments['text']} starts")
    await asyncio.sleep(arguments.get("seconds", 0))
    notes[episode].append(arguments["text"])
    events.append(f"write {arguments['text']} ends")
    return "written"


async def read(arguments: Any, episode: str) -> list[str]:
    events.append("read starts")
    await asyncio.sleep(arguments.get("seconds", 0))
    events.append("read ends")
    return list(notes[episode]) if episode in notes else []


async def episodes(_arguments: Any, _episode: str) -> list[str]:
    return sorted(notes)


async def log(_arguments: Any, _episode: str) -> list[str]:
    return events


async def fail(arguments: Any, _episode: str) -> str:
    if arguments["how"] == "model":
        raise ToolError("no such ticker")
    if arguments["how"] == "provider":
        raise Unavailable("the provider answered 503")
    raise RuntimeError("a bug of the server's")


async def drop(episode: str) -> None:
    notes.pop(episode, None)


def _tool(name: str, handler: Any, *, is_read_only: bool) -> ServedTool:
    return ServedTool(name, name, {"type": "object"}, handler, is_read_only, is_idempotent=False)


SERVICE = Service(
    "notebook",
    [
        _tool("write", write, is_read_only=False),
        _tool("read", read, is_read_only=True),
        _tool("episodes", episodes, is_read_only=True),
        _tool("log", log, is_read_only=True),
        _tool("fail", fail, is_read_only=True),
    ],
    drop=drop,
)

if __name__ == "__main__":
    asyncio.run(serve_stdio(SERVICE))
