"""Parts of SQL statements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnwise.explore.algebra.query import Condition
from turnwise.explore.records import Scalar

_SIGNS = {"is": "=", "above": ">", "below": "<"}


@dataclass(frozen=True, slots=True)
class SqlTable:
    """A table, or tables joined: what stands after FROM, and the expression of every column."""

    source: str
    columns: Mapping[str, str]


def named(name: str) -> str:
    """Return a name as SQL writes it: bare if it can be."""
    return name if name.isidentifier() and name.isascii() else '"' + name.replace('"', '""') + '"'


def literal(value: Scalar) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value) if isinstance(value, int | float) else "'" + value.replace("'", "''") + "'"


def select(what: str, source: str, rest: str = "") -> str:
    """Return a query; all names and values in it are those of the database that is asked."""
    return f"SELECT {what} FROM {source}{rest}"  # noqa: S608


def delete(table: str, condition: str) -> str:
    return f"DELETE FROM {named(table)} WHERE {condition}"  # noqa: S608


def where_of(table: SqlTable, conditions: Sequence[Condition], present: str = "") -> str:
    """Return the WHERE clause with a space in front; `present` must not be NULL."""
    parts = [f"{table.columns[one.column]} {_SIGNS[one.sign]} {literal(one.value)}" for one in conditions]
    parts += [f"{table.columns[present]} IS NOT NULL"] if present else []
    return f" WHERE {' AND '.join(parts)}" if parts else ""
