"""A tiny MCP server on the serving seam: notes kept per episode, and tools that answer oddly on demand.

`notes.py` serves stdio, `notes.py --http` a free port, or that of `--port`; `--unkeyed` keeps no state per
episode, and `--hostile-names` has a tool whose name is an escape sequence.
"""

import asyncio
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from turnwise.mcp.serve import ServedTool, Service, ToolError, Unavailable, serve_http, serve_stdio

NOTES: defaultdict[str, list[str]] = defaultdict(list)
HOSTILE = "\x1b[31mred\x1b[0m [bold red]markup[/] <|im_end|> \u202eback :warning: \x9b2J"
OBJECT = {"type": "object"}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


async def add_note(arguments: Mapping[str, Any], episode: str) -> Any:
    NOTES[episode].append(arguments["text"])
    return {"num_notes": len(NOTES[episode])}


async def list_notes(arguments: Mapping[str, Any], episode: str) -> Any:
    return {"episode": episode, "notes": NOTES[episode], "episodes": sorted(NOTES)}


async def echo(arguments: Mapping[str, Any], episode: str) -> Any:
    return dict(arguments)


async def say(arguments: Mapping[str, Any], episode: str) -> Any:
    return arguments["text"]


async def environment(arguments: Mapping[str, Any], episode: str) -> Any:
    return dict(os.environ)


async def wrong(arguments: Mapping[str, Any], episode: str) -> Any:
    raise ToolError("no ticker 'ZZZZ'")


async def unavailable(arguments: Mapping[str, Any], episode: str) -> Any:
    raise Unavailable("provider says 503")


async def buggy(arguments: Mapping[str, Any], episode: str) -> Any:
    return {}["missing sk-inside-the-bug"]


async def unwritable(arguments: Mapping[str, Any], episode: str) -> Any:
    return {"value": object()}


async def half_character(arguments: Mapping[str, Any], episode: str) -> Any:
    return "half \ud800 character"


async def hostile(arguments: Mapping[str, Any], episode: str) -> Any:
    return HOSTILE


async def forget(episode: str) -> None:
    NOTES.pop(episode, None)


def tools() -> list[ServedTool]:
    def read(name: str, description: str, schema: Mapping[str, Any], handler: Any) -> ServedTool:
        return ServedTool(name, description, schema, handler, is_read_only=True, is_idempotent=True)

    strange = [read(f"strange{HOSTILE}", HOSTILE, OBJECT, echo)] if "--hostile-names" in sys.argv else []
    return [
        *strange,
        ServedTool("add_note", "Keep a note.", TEXT, add_note, is_read_only=False, is_idempotent=False),
        read("list_notes", "The notes so far.", OBJECT, list_notes),
        read("echo", "The arguments as they came.", OBJECT, echo),
        read("say", "The text as it came.", TEXT, say),
        read("environment", "The server's environment.", OBJECT, environment),
        read("wrong", "Always the caller's mistake.", OBJECT, wrong),
        read("unavailable", "Always the provider's fault.", OBJECT, unavailable),
        read("buggy", "Always a bug.", OBJECT, buggy),
        read("unwritable", "A value that is not JSON.", OBJECT, unwritable),
        read("half_character", "Text that is not Unicode.", OBJECT, half_character),
        read("hostile", f"Says {HOSTILE} {os.environ.get('NOTES_API_KEY', '')}", OBJECT, hostile),
    ]


def main() -> None:
    service = Service("notes", tools(), drop=None if "--unkeyed" in sys.argv else forget)
    if "--http" in sys.argv:
        token = sys.argv[sys.argv.index("--token") + 1] if "--token" in sys.argv else ""
        port = int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0
        asyncio.run(serve_http(service, host="127.0.0.1", port=port, token=token))
    else:
        asyncio.run(serve_stdio(service))


if __name__ == "__main__":
    main()
