"""Changes to the rows of a database, each with queries that show it afterwards."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnwise.explore.first.drawn_texts import DrawnTexts
from turnwise.explore.first.sql.question import equals, the_row
from turnwise.explore.first.sql.result_rows import Cell
from turnwise.explore.first.sql.schema import Column, Database, Table, literal
from turnwise.explore.first.sql.table_questions import asked_columns, is_sayable_value, label_values
from turnwise.explore.first.wording.names import listing, quoted
from turnwise.types import StateProbe, Tool

_NUM_ADDED = 6
_NUM_UPDATED = 8
_NUM_DELETED = 4
_NUM_CREATED = 6
"""Changes of one kind, for one table."""
_NEW_COLUMNS = (
    ("title", "TEXT"),
    ("amount", "REAL"),
    ("day", "TEXT"),
    ("quantity", "INTEGER"),
    ("city", "TEXT"),
)


@dataclass(frozen=True, slots=True)
class SqlChange:
    """A statement that changes the database, the request for it as an infinitive, and probes that show it."""

    shape: str
    tool: Tool
    parameter: str
    statement: str
    deed: str
    probes: tuple[StateProbe, ...]
    entities: tuple[str, ...]


def sql_changes(database: Database, seed: int) -> Iterator[SqlChange]:
    """Yield changes that the database's tools may make."""
    chance = random.Random(f"{seed}/sql-changes/{database.tool.name}")  # noqa: S311  # tasks, not secrets
    texts = DrawnTexts(chance)
    if database.writer is not None:
        for table in database.tables:
            label = table.label()
            if label is not None:
                yield from _updates(database, table, label, chance)
                yield from _deletions(database, table, label, chance)
                if label.is_text and not label.is_identifier:
                    yield from _additions(database, table, label, texts, chance)
    if database.creator is not None:
        yield from _creations(database, texts, chance)


def _updates(database: Database, table: Table, label: Column, chance: random.Random) -> Iterator[SqlChange]:
    columns = [one for one in asked_columns(table, label) if one.is_category or one.is_quantity]
    for value in label_values(label, chance)[:_NUM_UPDATED]:
        if not columns:
            return
        column = columns[int(chance.random() * len(columns))]
        new = _new_value(column, chance)
        where = equals(label, value).sql
        num_others = _num_others(label, value, column, new)
        yield _change(
            database,
            "sql_update",
            f"UPDATE {table.sql} SET {column.sql} = {literal(new)} WHERE {where}",  # noqa: S608
            f"change the {column.noun} of {the_row(table, label, value)} to {quoted(new)}",
            _state(
                database,
                f"{_count(table, f'{where} AND {column.sql} = {literal(new)}')} = 1",
                f"{_count(table)} = {table.num_rows}",
                # a statement without its WHERE would give all rows the new value
                f"{_count(table, f'{column.sql} <> {literal(new)}')} >= {num_others}",
            ),
            str(value),
        )


def _num_others(label: Column, value: Cell, column: Column, new: Cell) -> int:
    """Return how many rows of the sample the change leaves with another value than the new one."""
    pairs = zip(label.samples, column.samples, strict=True)
    return sum(name != value and other not in (None, new) for name, other in pairs)


def _new_value(column: Column, chance: random.Random) -> Cell:
    """Return a new number, or another value of a category."""
    if column.is_numeric:
        numbers = [float(str(value)) for value in column.known]
        low, high = min(numbers), max(numbers)
        drawn = low + (high - low) * chance.random()
        return round(drawn) if column.is_whole else round(drawn, 2)
    values = sorted({str(value) for value in column.known if is_sayable_value(value)})
    return values[int(chance.random() * len(values))]


def _deletions(database: Database, table: Table, label: Column, chance: random.Random) -> Iterator[SqlChange]:
    for value in label_values(label, chance)[:_NUM_DELETED]:
        where = equals(label, value).sql
        yield _change(
            database,
            "sql_delete",
            f"DELETE FROM {table.sql} WHERE {where}",  # noqa: S608
            f"delete {the_row(table, label, value)}",
            _state(
                database,
                f"{_count(table, where)} = 0",
                f"{_count(table)} = {table.num_rows - 1}",
            ),
            str(value),
        )


def _additions(
    database: Database, table: Table, label: Column, texts: DrawnTexts, chance: random.Random
) -> Iterator[SqlChange]:
    unique = [one for one in table.unique() if one is not label and not (one.is_identifier and one.is_whole)]
    if any(not _are_addresses(column) for column in unique):
        return  # a new value of an unknown form would be needed
    others = [one for one in table.columns if one is not label and one not in table.unique()]
    for _ in range(_NUM_ADDED):
        name = texts.name().title()
        values = [(column, _some_value(column, chance)) for column in others]
        values += [(column, f"{name.replace(' ', '.').lower()}@example.com") for column in unique]
        given = [(label, name), *((column, value) for column, value in values if value is not None)]
        names = ", ".join(column.sql for column, _ in given)
        listed = ", ".join(literal(value) for _, value in given)
        fields = " AND ".join(equals(column, value).sql for column, value in given)
        yield _change(
            database,
            "sql_insert",
            f"INSERT INTO {table.sql} ({names}) VALUES ({listed})",  # noqa: S608
            f"add a new {table.noun} with {listing([_said(column, value) for column, value in given])}",
            _state(
                database,
                f"{_count(table, fields)} = 1",
                f"{_count(table)} = {table.num_rows + 1}",
            ),
            name,
        )


def _some_value(column: Column, chance: random.Random) -> Cell:
    values = [value for value in column.known if is_sayable_value(value)]
    return values[int(chance.random() * len(values))] if values else None


def _are_addresses(column: Column) -> bool:
    return column.is_text and all("@" in str(value) for value in column.known)


def _said(column: Column, value: Cell) -> str:
    if column.is_sayable:
        return f"the {column.noun} {quoted(value)}"
    return f"“{column.name}” set to {quoted(value)}"


def _creations(database: Database, texts: DrawnTexts, chance: random.Random) -> Iterator[SqlChange]:
    assert database.creator is not None
    tool, parameter = database.creator
    for _ in range(_NUM_CREATED):
        name = texts.name().replace(" ", "_")
        columns = list(_NEW_COLUMNS)
        chance.shuffle(columns)
        chosen = columns[:3]
        parts = ", ".join(f"{column} {kind}" for column, kind in (("id", "INTEGER PRIMARY KEY"), *chosen))
        counts = " + ".join(f"COUNT({column})" for column, _ in (("id", ""), *chosen))
        # The sum is not in the statement: an error that repeats the statement does not show the table.
        shows = _probe(database, f"SELECT {counts} + 4000 + 711 AS total FROM {name}", "4711")  # noqa: S608
        said = [f"“{column}” ({kind})" for column, kind in chosen]
        yield SqlChange(
            "sql_create_table",
            tool,
            parameter,
            f"CREATE TABLE {name} ({parts})",
            f"create a table named “{name}” with an integer primary key “id” and the columns {listing(said)}",
            (shows,),
            (name,),
        )


def _change(
    database: Database, shape: str, statement: str, deed: str, probes: Sequence[StateProbe], entity: str
) -> SqlChange:
    assert database.writer is not None
    tool, parameter = database.writer
    return SqlChange(shape, tool, parameter, statement, deed, tuple(probes), (entity,))


def _count(table: Table, where: str = "") -> str:
    """Return the number of rows, of all or of some, as a part of a statement."""
    condition = f" WHERE {where}" if where else ""
    return f"(SELECT COUNT(*) FROM {table.sql}{condition})"  # noqa: S608  # names and values are quoted


def _state(database: Database, *conditions: str) -> tuple[StateProbe, ...]:
    """Return the probe that all conditions hold.

    The database compares: a probe for the text 50 would hold for 1950. What it shows is not in the statement,
    since an error may repeat the statement.
    """
    holds = " AND ".join(conditions)
    shows = f"SELECT CASE WHEN {holds} THEN REPLACE('as-asked', '-', ' ') ELSE 'otherwise' END AS state"
    return (_probe(database, shows, "as asked"),)


def _probe(database: Database, statement: str, shown: str) -> StateProbe:
    return StateProbe(database.tool.name, {database.parameter: statement}, shown)
