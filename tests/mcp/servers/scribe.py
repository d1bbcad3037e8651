"""A server that writes and reads any file, as its user could."""

import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("scribe")
if len(sys.argv) > 1:
    Path(sys.argv[1]).write_text("started")


@server.tool()
def write(path: str, text: str) -> str:
    """Write a file."""
    try:
        Path(path).expanduser().write_text(text)
    except OSError as error:
        return f"failed: {error.strerror}"
    return "written"


@server.tool()
def read(path: str) -> str:
    """Read a file."""
    try:
        return Path(path).expanduser().read_text()
    except OSError as error:
        return f"failed: {error.strerror}"


server.run()
