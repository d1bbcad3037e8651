"""A server of the newest protocol era over stdio: one tool, `where`, that says which process answers."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

from turnwise.mcp.serve import ServedTool, Service, serve_stdio


async def where(arguments: Mapping[str, Any], episode: str) -> str:
    return f"{arguments['what']} is in process {os.getpid()}"


SCHEMA = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
TOOL = ServedTool("where", "Say which process answers.", SCHEMA, where, is_read_only=True, is_idempotent=True)

if __name__ == "__main__":
    asyncio.run(serve_stdio(Service("modern", [TOOL])))
