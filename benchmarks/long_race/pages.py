"""An MCP server for benchmarks/long_steps.py: one tool, `read`, that answers with the same page every time.

python pages.py SCRIPT.json DELAY     the file DELAY contains the milliseconds of a call
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from turnwise.mcp.serve import ServedTool, Service, serve_stdio


def service(script: Path, delay: Path) -> Service:
    found = json.loads(script.read_text())
    tool = found["tool"]

    def seconds() -> float:
        return float(delay.read_text()) / 1000

    async def read(_arguments: Any, _episode: str) -> str:
        await asyncio.sleep(seconds())
        return str(found["observation"])

    return Service(
        "pages",
        [ServedTool(tool["name"], tool["description"], tool["parameters"], read, True, True)],
    )


if __name__ == "__main__":
    asyncio.run(serve_stdio(service(Path(sys.argv[1]), Path(sys.argv[2]))))
