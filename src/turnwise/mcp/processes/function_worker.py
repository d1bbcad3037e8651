"""The process in which a recipe's functions run: `python -m turnwise.mcp.processes.function_worker`.

It reads JSON lines: first where to find the functions, then calls. What functions print goes to stderr.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

_MAX_LINE_BYTES = 1 << 26


async def serve(replies: BinaryIO) -> None:
    """Answer calls until stdin is closed; a line without a function only asks whether the process answers."""
    requests = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(requests), sys.stdin)

    def reply(answer: Mapping[str, Any]) -> None:
        replies.write(json.dumps(answer).encode() + b"\n")
        replies.flush()

    first = json.loads(await requests.readline())
    sys.path[:] = first["path"]
    from turnwise.mcp.functions import function_tool
    from turnwise.mcp.serve import ToolError, Unavailable
    from turnwise.system.python_functions import find_function

    try:
        found = {name: find_function(name, "tool") for name in first["functions"]}
    except ValueError as error:
        reply({"failed": str(error)})
        return
    handlers = {name: function_tool(name, function).handler for name, function in found.items()}
    reply({})

    async def answer(request: Mapping[str, Any]) -> None:
        kind = "ok"
        try:
            text = await handlers[request["function"]](request["arguments"], "")
        except (ToolError, Unavailable) as error:
            kind, text = type(error).__name__, str(error)
        reply({"id": request["id"], "kind": kind, "text": text})

    calls: set[asyncio.Task[None]] = set()
    while line := await requests.readline():
        request = json.loads(line)
        if "function" in request:
            calls.add(call := asyncio.create_task(answer(request)))
            call.add_done_callback(calls.discard)
        else:
            reply({"id": request["id"], "kind": "ok", "text": ""})


def main() -> None:
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        asyncio.run(serve(replies))
    os._exit(0)  # threads of functions that never return must not keep it alive


if __name__ == "__main__":
    main()
