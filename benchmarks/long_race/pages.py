"""An MCP server for benchmarks/long_steps.py: one tool, `read`, that answers with the same page every time.

python pages.py SCRIPT.json [NAME]     NAME: the tool's name instead of `read`, with a short description
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from turnwise.mcp.serve import ServedTool, Service, serve_stdio


def service(script: Path, name: str) -> Service:
    found = json.loads(script.read_text())
    tool = found["tool"]

    async def read(arguments: Any, _episode: str) -> str:
        await asyncio.sleep(arguments["milliseconds"] / 1000)
        return str(found["observation"])

    description = tool["description"] if name == tool["name"] else "Read a page."
    return Service(
        "pages",
        [ServedTool(name, description, tool["parameters"], read, True, True)],
    )


if __name__ == "__main__":
    asyncio.run(serve_stdio(service(Path(sys.argv[1]), *sys.argv[2:] or ["read"])))
