"""A small library: books, their authors by id, and notes that can be added."""

from typing import Any

from mcp.server.mcpserver import MCPServer

server = MCPServer("library")
AUTHORS = {
    f"A{number}": {"id": f"A{number}", "name": name, "born": 1900 + 7 * number, "city": city}
    for number, (name, city) in enumerate(
        [
            ("Ada Brandt", "Oslo"), ("Ben Ilves", "Tartu"), ("Cleo Marsh", "Leeds"), ("Dan Okoye", "Enugu"),
            ("Eva Lindh", "Malmo"), ("Finn Haas", "Ulm"), ("Gia Russo", "Bari"), ("Hal Young", "Perth"),
        ]
    )
}  # fmt: skip
BOOKS = [
    {"title": title, "author_id": f"A{number % 8}", "pages": 120 + 37 * number % 400, "price": 5.5 + number}
    for number, title in enumerate(
        ["Tides", "Granite", "Moss", "Lanterns", "Orchard", "Salt", "Harbour", "Winter", "Copper", "Reeds"]
    )
]
NOTES: list[str] = []


@server.tool()
def list_books() -> dict[str, Any]:
    """List all books of the library."""
    return {"books": BOOKS}


@server.tool()
def get_author(author_id: str) -> dict[str, Any]:
    """Get an author by ID."""
    if author_id not in AUTHORS:
        raise ValueError(f"unknown author_id {author_id!r}; did you mean 'A0'?")
    return AUTHORS[author_id]


@server.tool()
def add_note(text: str) -> str:
    """Add a note to the board."""
    NOTES.append(text)
    return f"{len(NOTES)} notes"


@server.tool()
def list_notes() -> dict[str, Any]:
    """List the notes on the board."""
    return {"notes": NOTES}


if __name__ == "__main__":
    server.run()
