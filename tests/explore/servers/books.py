"""A bookshop's database behind two tools that take SQL: one reads, one writes."""

import json
import sqlite3

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("books")
database = sqlite3.connect(":memory:", check_same_thread=False)
database.executescript("""
    CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT, country TEXT);
    CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER, price REAL, pages INTEGER);
""")
AUTHORS = [
    (1, "Ada Holm", "Norway"),
    (2, "Bruno Dunn", "Ireland"),
    (3, "Chiara Fuchs", "Austria"),
    (4, "Dmitri Grant", "Ireland"),
]
BOOKS = [
    (1, "The Amber Archive", 2, 12.5, 310),
    (2, "A Quiet Harbour", 1, 9.75, 204),
    (3, "Salt and Slate", 2, 30.0, 716),
    (4, "The Second Winter", 4, 15.2, 288),
    (5, "Paper Lanterns", 3, 7.5, 152),
    (6, "North of Nowhere", 1, 48.0, 455),
    (7, "The Glass Orchard", 2, 11.1, 331),
]
database.executemany("INSERT INTO authors VALUES (?, ?, ?)", AUTHORS)
database.executemany("INSERT INTO books VALUES (?, ?, ?, ?, ?)", BOOKS)


@server.tool()
def ask(statement: str) -> str:
    """Run a SELECT statement on the bookshop's database."""
    if not statement.lstrip().upper().startswith("SELECT"):
        raise ToolError("only SELECT is allowed")
    return _run(statement)


@server.tool()
def alter(statement: str) -> str:
    """Run a statement that changes the bookshop's database."""
    if statement.lstrip().upper().startswith("SELECT"):
        raise ToolError("SELECT is not allowed")
    return _run(statement)


def _run(statement: str) -> str:
    try:
        found = database.execute(statement)
    except sqlite3.Error as error:
        raise ToolError(f"Database error: {error}") from None
    names = [column[0] for column in found.description or ()]
    database.commit()
    return json.dumps([dict(zip(names, row, strict=True)) for row in found.fetchall()])


if __name__ == "__main__":
    server.run()
