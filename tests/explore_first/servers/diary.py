"""A diary whose notes can be written over, and people to note down.

A note is read as plain text, and the list of notes does not show their texts. Arguments:

bare    without the hint of what only reads
long    with more notes than can be read after every episode
secret  with a note that holds a password
"""

import sys
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

READS = None if "bare" in sys.argv else ToolAnnotations(readOnlyHint=True)
PEOPLE = {
    "Ida Brandt": {"email": "ida.brandt@example.org", "city": "Aarhus", "desk": "B-4471"},
    "Jonas Vik": {"email": "jonas.vik@example.org", "city": "Bergen", "desk": "C-5508"},
    "Lena Sato": {"email": "lena.sato@example.org", "city": "Sapporo", "desk": "A-9930"},
    "Omar Haddad": {"email": "omar.haddad@example.org", "city": "Tunis", "desk": "D-1207"},
}
NOTES = {
    "groceries": "rye bread, six eggs, coffee",
    "travel": "The train to Aarhus leaves from platform 5.",
    "garden": "Water the tomato plants on Friday.",
}
if "long" in sys.argv:
    NOTES |= {f"day {number}": f"On day {number}, {number * 37} people came." for number in range(1, 30)}
if "secret" in sys.argv:
    NOTES["router"] = "address: 10.0.0.1\npassword: tr0ub4dor-1"
server = MCPServer("diary")


@server.tool(annotations=READS)
def list_people() -> dict[str, Any]:
    """List the names of all people."""
    return {"people": [{"name": name} for name in PEOPLE]}


@server.tool(annotations=READS)
def get_person(name: str) -> dict[str, Any]:
    """Return the email address, the city and the desk of a person."""
    if name not in PEOPLE:
        raise ToolError(f"no person {name!r}; there are: {', '.join(PEOPLE)}")
    return {"name": name, **PEOPLE[name]}


@server.tool(annotations=READS)
def list_notes() -> dict[str, Any]:
    """List the titles of all notes."""
    return {"notes": [{"title": title} for title in NOTES]}


@server.tool(annotations=READS)
def read_note(title: str) -> str:
    """Return the text of a note."""
    if title not in NOTES:
        raise ToolError(f"no note {title!r}; there are: {', '.join(NOTES)}")
    return NOTES[title]


@server.tool()
def write_note(title: str, text: str) -> str:
    """Write a note, in place of one with the same title."""
    NOTES[title] = text
    return f"{len(NOTES)} notes"


if __name__ == "__main__":
    server.run()
