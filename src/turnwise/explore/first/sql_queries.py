"""SQL statements to try with a tool that takes SQL, made of the names of tables that were found."""

import re
from collections.abc import Iterable, Iterator

MAX_TABLES = 12
NUM_ROWS = 20
"""Rows that a statement asks for: enough for a table, few enough for the result budget."""

_WANTS_SQL = re.compile(r"\bSQL\b|\bSELECT\b|\bCREATE TABLE\b", re.IGNORECASE)
_CREATES = re.compile(r"\bCREATE\b", re.IGNORECASE)
_CHANGES_ROWS = re.compile(r"\b(?:INSERT|UPDATE)\b", re.IGNORECASE)
_TABLE_NAME = re.compile(r"[^\W\d]\w{0,62}(?:\.[^\W\d]\w{0,62})?")

LISTING = (
    "SELECT name FROM sqlite_master WHERE type = 'table'",
    "SELECT table_name FROM information_schema.tables",
)
"""Statements that list the tables of a database."""


def wants_sql(name: str, description: str) -> bool:
    """Whether a parameter takes a statement of SQL."""
    return name.lower() in ("sql", "statement", "sql_query") or bool(_WANTS_SQL.search(description[:300]))


def creates_tables(description: str) -> bool:
    """Whether a parameter takes statements that create tables."""
    return bool(_CREATES.search(description[:300]))


def changes_rows(description: str) -> bool:
    """Whether a description speaks of statements that change rows."""
    return bool(_CHANGES_ROWS.search(description[:1_000]))


def statements(description: str, tables: Iterable[str]) -> Iterator[str]:
    """Yield statements for a parameter: one that creates a table if it is described so, else reading ones."""
    if creates_tables(description):
        yield "CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT, amount REAL)"
        return
    named = [table for table in dict.fromkeys(tables) if _TABLE_NAME.fullmatch(table)][:MAX_TABLES]
    for table in named:
        yield f"SELECT * FROM {table} LIMIT {NUM_ROWS}"  # noqa: S608  (the names are checked above)
    for table in named:
        yield f"SELECT COUNT(*) AS num_rows FROM {table}"  # noqa: S608
    yield from LISTING
