"""A well-behaved notebook with state: create, list, read and delete notes, in memory."""

from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

READS = ToolAnnotations(readOnlyHint=True)
NOTES = {
    "groceries": "rye bread, six eggs, coffee",
    "travel": "The train to Aarhus leaves at 07:42 from platform 5.",
    "budget": "Rent 940 euros, books 35 euros.",
    "garden": "Water the 12 tomato plants on Friday.",
}
server = MCPServer("notes")


@server.tool(annotations=READS)
def list_notes() -> dict[str, Any]:
    """List the titles of all notes and the length of their texts."""
    return {"notes": [{"title": title, "num_characters": len(text)} for title, text in NOTES.items()]}


@server.tool(annotations=READS)
def read_note(title: str) -> dict[str, Any]:
    """Return the text of a note."""
    if title not in NOTES:
        raise ToolError(f"no note {title!r}; there are: {', '.join(NOTES)}")
    return {"title": title, "text": NOTES[title]}


@server.tool()
def create_note(title: str, text: str) -> dict[str, Any]:
    """Keep a new note."""
    if title in NOTES:
        raise ToolError(f"there is a note {title!r} already")
    NOTES[title] = text
    return {"title": title, "num_notes": len(NOTES)}


@server.tool()
def delete_note(title: str) -> dict[str, Any]:
    """Remove a note."""
    if title not in NOTES:
        raise ToolError(f"no note {title!r}; there are: {', '.join(NOTES)}")
    del NOTES[title]
    return {"num_notes": len(NOTES)}


if __name__ == "__main__":
    server.run()
