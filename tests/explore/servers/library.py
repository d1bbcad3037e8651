"""A library whose shelf marks stand in a resource only, and in the help of a prompt."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

BOOKS = {
    "QX-4471": {"author": "Ida Brandt", "num_pages": 312},
    "QX-5508": {"author": "Jonas Vik", "num_pages": 148},
    "QX-9930": {"author": "Lena Sato", "num_pages": 527},
}
server = MCPServer("library")


@server.resource("library://catalogue", name="catalogue", mime_type="application/json")
def catalogue() -> list[dict[str, str]]:
    return [{"mark": mark} for mark in list(BOOKS)[:2]]


@server.resource("library://logo", name="logo", mime_type="image/png")
def logo() -> bytes:
    return b"\x89PNG"


@server.resource("library://broken", name="broken")
def broken() -> str:
    raise RuntimeError("this resource cannot be read")


@server.resource("library://shelves/{room}", name="shelves")
def shelves(room: str) -> str:
    return room


@server.prompt()
def recommend(mark: str) -> str:
    """Recommend a book like another one."""
    return f"What should I read after {mark}?"


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def get_book(mark: str) -> dict[str, Any]:
    """Return the author and the length of a book."""
    if mark not in BOOKS:
        raise ToolError("no such book")
    return BOOKS[mark]


if __name__ == "__main__":
    server.run()
