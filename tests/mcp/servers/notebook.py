"""A stateful MCP server: notes kept per episode, slow reads, and a log of the order of calls.

It uses the standard library only, because importing the SDK takes ten times as long as all else it does.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from turnwise.mcp.episode_meta import BUG, DROP_METHOD, EPISODE_KEY, EXTENSION, FAULT_KEY, UPSTREAM

notes: dict[str, list[str]] = defaultdict(list)
events: list[str] = []


class Wrong(Exception):
    """A fault of the call."""


class Down(Exception):
    """A fault of the service behind the tool."""


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
        raise Wrong("no such ticker")
    if arguments["how"] == "provider":
        raise Down("the provider answered 503")
    raise RuntimeError("a bug of the server's")


Handler = Callable[[Any, str], Awaitable[Any]]
TOOLS: dict[str, Handler] = {handler.__name__: handler for handler in (write, read, episodes, log, fail)}
"""Only `write` changes anything."""


async def drop(episode: str) -> None:
    notes.pop(episode, None)


async def call(params: Any) -> dict[str, Any]:
    meta: dict[str, str] = {FAULT_KEY: UPSTREAM}
    try:
        episode = params["_meta"].get(EPISODE_KEY, "")
        value = await TOOLS[params["name"]](params.get("arguments") or {}, episode)
    except Wrong as error:
        text, meta = str(error), {}
    except Down as error:
        text = str(error)
    except Exception as error:  # noqa: BLE001 (a server with a bug keeps serving)
        text, meta = f"{type(error).__name__} in {params['name']}", {FAULT_KEY: BUG}
    else:
        compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return {"content": [{"type": "text", "text": value if isinstance(value, str) else compact}]}
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": meta}


async def answer(method: str, params: Any) -> dict[str, Any]:
    fresh = {"cacheScope": "private", "ttlMs": 0}
    if method == "server/discover":
        capabilities = {"tools": {"listChanged": False}, "extensions": {EXTENSION: {}}}
        return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities, **fresh}
    if method == "tools/list":
        listed = [
            {
                "name": name,
                "description": name,
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": name != "write", "destructiveHint": False},
            }
            for name in TOOLS
        ]
        return {"tools": listed, **fresh}
    if method == "tools/call":
        return await call(params)
    assert method == DROP_METHOD, method
    await drop(params["episode"])
    return {}


async def reply(message: Any) -> None:
    result = {"resultType": "complete", **await answer(message["method"], message["params"])}
    server = {"io.modelcontextprotocol/serverInfo": {"name": "notebook", "version": "1"}}
    result["_meta"] = server | result.get("_meta", {})
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
    sys.stdout.flush()


async def serve() -> None:
    """Serve calls concurrently until stdin closes."""
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    begun: dict[Any, asyncio.Task[None]] = {}
    while line := await lines.readline():
        message = json.loads(line)
        if "id" in message:
            task = begun[message["id"]] = asyncio.create_task(reply(message))
            task.add_done_callback(lambda _, number=message["id"]: begun.pop(number, None))
        elif message["method"] == "notifications/cancelled" and message["params"]["requestId"] in begun:
            begun[message["params"]["requestId"]].cancel()


if __name__ == "__main__":
    asyncio.run(serve())
