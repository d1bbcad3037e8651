"""A stateful MCP server for tests: notes kept per episode, slow reads, and a log of what ran when.

Of the standard library alone: a test that plays starts several, and the SDK's import takes ten times as long
as all else that they do. What serves on the SDK is tested in test_serve.py, and by notes.py.
"""

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

from turnwise.mcp.episode_meta import DROP_METHOD, EPISODE_KEY, EXTENSION, FAULT_KEY

notes: dict[str, list[str]] = defaultdict(list)
events: list[str] = []


class Wrong(Exception):
    """The call's own fault."""


class Down(Exception):
    """What is behind the tool failed."""


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


TOOLS: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
    "write": write,
    "read": read,
    "episodes": episodes,
    "log": log,
    "fail": fail,
}
"""All but `write` change nothing."""


async def drop(episode: str) -> None:
    notes.pop(episode, None)


async def call(params: Any) -> dict[str, Any]:
    try:
        value = await TOOLS[params["name"]](
            params.get("arguments") or {}, params["_meta"].get(EPISODE_KEY, "")
        )
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )
        return {"content": [{"type": "text", "text": text}]}
    except Wrong as error:
        text, meta = str(error), {}
    except Down as error:
        text, meta = str(error), {FAULT_KEY: "infra"}
    except Exception as error:  # noqa: BLE001 (a server with a bug goes on, too)
        text, meta = f"{type(error).__name__} in {params['name']}", {FAULT_KEY: "infra"}
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
    result = await answer(message["method"], message["params"])
    told = {"resultType": "complete", **result}
    told["_meta"] = {"io.modelcontextprotocol/serverInfo": {"name": "notebook", "version": "1"}} | told.get(
        "_meta", {}
    )
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": told}) + "\n")
    sys.stdout.flush()


async def serve() -> None:
    """Calls side by side, until stdin closes or there is no more to say it to."""
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
