"""A stdio server with a small database, a converter and a calculator."""

import sqlite3
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from mcp.server import MCPServer

server = MCPServer("computing")
database = sqlite3.connect(":memory:", check_same_thread=False)
database.executescript("""
    CREATE TABLE authors (author_id INTEGER PRIMARY KEY, name TEXT, country TEXT);
    CREATE TABLE books (book_id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER, genre TEXT, price REAL);
    INSERT INTO authors VALUES (1, 'Ada Holm', 'Norway'), (2, 'Ben O''Hara', 'Ireland'),
        (3, 'Cy Lund', 'Norway'), (4, 'Dora Fuchs', 'Ireland');
    INSERT INTO books VALUES (1, 'Amber', 1, 'crime', 12.5), (2, 'Birch', 1, 'poetry', 8.75),
        (3, 'Cedar', 2, 'crime', 21.4), (4, 'Dune', 3, 'poetry', 17.9), (5, 'Elm', 1, 'crime', 30.1),
        (6, 'Fern', 2, 'travel', 14.2);
""")
METRES = {"foot": 0.3048, "mile": 1609.344, "meter": 1.0, "kilometer": 1000.0}


@server.tool()
def read_query(query: str) -> str:
    """Execute a SELECT query on the SQL database."""
    try:
        return str([tuple(row) for row in database.execute(query)])
    except sqlite3.Error as error:
        return f"Database error: {error}"


@server.tool()
def convert_length(
    value: float,
    from_unit: Literal["foot", "mile", "meter", "kilometer"],
    to_unit: Literal["foot", "mile", "meter", "kilometer"],
) -> dict[str, float]:
    """Convert a length between units."""
    return {"original_value": value, "converted_value": value * METRES[from_unit] / METRES[to_unit]}


@server.tool()
def calculate(expression: str) -> str:
    """Evaluate an arithmetic expression."""
    return str(eval(expression, {"__builtins__": {}}))  # a test server


@server.tool()
def convert_time(time: str, from_timezone: str, to_timezone: str) -> str:
    """Convert a time (2024-05-14 18:30:00) between IANA time zones such as 'Asia/Tokyo'."""
    moment = datetime.fromisoformat(time).replace(tzinfo=ZoneInfo(from_timezone))
    return f"{moment:%H:%M} in {from_timezone} is {moment.astimezone(ZoneInfo(to_timezone)):%H:%M} there."


if __name__ == "__main__":
    server.run()
