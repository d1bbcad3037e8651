"""Which tools take SQL, by trying, and what the tables behind them hold."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.explore.algebra.sql_text import delete, literal, named, select
from turnwise.explore.programs.program import flat, put
from turnwise.explore.reading import is_cut
from turnwise.explore.records import Answer, Call, Column, Relation, Survey
from turnwise.explore.survey.sessions import Session
from turnwise.explore.wording.names import human, singular
from turnwise.types import Tool

_PROOF, _PROVEN = "SELECT 6 * 7 AS answer", "42"
_LISTS = (
    "SELECT name, 1 AS one FROM sqlite_master WHERE type = 'table' ORDER BY name",
    "SELECT table_name, 1 AS one FROM information_schema.tables WHERE table_schema NOT IN"
    " ('information_schema', 'pg_catalog', 'mysql', 'performance_schema', 'sys') ORDER BY table_name",
)
"""Statements that list the tables. The number tells a row of names from a header."""
_COLUMNS = (
    "SELECT name, 1 AS one FROM pragma_table_info({}) ORDER BY cid",
    "SELECT column_name, 1 AS one FROM information_schema.columns"
    " WHERE table_name = {} ORDER BY ordinal_position",
)
_MAX_TABLES = 12
_ROWS = (200, 40, 10)
_MIN_SHARED = 3


@dataclass(frozen=True, slots=True)
class SqlTool:
    """A parameter that takes SQL, with the other arguments that it needs."""

    tool: Tool
    parameter: str
    arguments: Mapping[str, Any]

    def call(self, statement: str) -> Call:
        arguments = dict(self.arguments)
        put(arguments, self.parameter, statement)
        return Call(self.tool.server, self.tool.name, arguments)


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its rows, or the first of them."""

    name: str
    rows: Relation
    is_whole: bool

    @property
    def noun(self) -> str:
        return singular(human(self.name))


@dataclass(frozen=True, slots=True)
class Reference:
    """A column whose values are keys of another table."""

    table: str
    column: str
    target: str
    key: str


@dataclass(frozen=True, slots=True)
class Database:
    """What is behind a tool that takes SQL."""

    reader: SqlTool
    tables: tuple[Table, ...]
    references: tuple[Reference, ...]


def candidates(survey: Survey, server: str) -> list[SqlTool]:
    """Return the text parameters of a server's tools that may take SQL, with arguments for the others."""
    values: dict[str, list[Any]] = defaultdict(list)
    for answer in survey.answers():
        for name, value in flat(answer.call.arguments).items():
            values[name].append(value)
    found = []
    for facts in survey.tools.values():
        schema = facts.tool.input_schema
        properties = schema.get("properties", {})
        required = schema.get("required", [])
        if facts.tool.server != server:
            continue
        for name, one in properties.items():
            others = [other for other in required if other != name]
            is_text = one.get("type", "string") == "string" and "enum" not in one
            if is_text and (name in required or not required) and all(values[other] for other in others):
                arguments = {other: values[other][0] for other in others}
                found.append(SqlTool(facts.tool, name, arguments))
    return found


async def find_reader(found: Sequence[SqlTool], session: Session) -> SqlTool | None:
    """Return the first parameter that computes in SQL."""
    for one in found:
        answer = await session.call(one.call(_PROOF))
        if not answer.is_error and _PROVEN in answer.text:
            return one
    return None


async def read_database(reader: SqlTool, session: Session) -> Database | None:
    """Read the tables behind a tool; None if there are none."""
    names = (await _table_names(reader, session))[:_MAX_TABLES]
    tables = [table for name in names if (table := await _table(reader, session, name))]
    return Database(reader, tuple(tables), tuple(_references(tables))) if tables else None


async def _table_names(reader: SqlTool, session: Session) -> list[str]:
    return [name for name in await _names(_LISTS, reader, session) if not name.startswith("sqlite_")]


async def _names(statements: Sequence[str], reader: SqlTool, session: Session) -> list[str]:
    """Return the names that the first statement lists which the database understands."""
    for statement in statements:
        answer = await session.call(reader.call(statement))
        names = [str(row[0]) for relation in answer.relations[:1] for row in relation.rows]
        if names and not answer.is_error:
            return names
    return []


def columns_of(table: str) -> list[str]:
    """Return statements that list the columns of a table; a database understands one of them."""
    return [statement.format(literal(table)) for statement in _COLUMNS]


async def _table(reader: SqlTool, session: Session, name: str) -> Table | None:
    count = await session.call(reader.call(select("COUNT(*) AS num", named(name))))
    numbers = [cell for relation in count.relations for row in relation.rows for cell in row]
    for limit in _ROWS:
        answer = await session.call(reader.call(select("*", named(name), f" LIMIT {limit}")))
        if answer.is_error:
            return None
        if not is_cut(answer.text):
            break
    names = await _names(columns_of(name), reader, session)
    rows = _widest(answer, names)
    if rows is None or len(rows.rows) < 2:
        return None
    return Table(name, rows, is_whole=numbers[:1] == [len(rows.rows)])


def _widest(answer: Answer, names: Sequence[str]) -> Relation | None:
    """Return the relation with the most cells, as a list of keyed rows with the table's own column names."""
    relations = sorted(answer.relations, key=lambda one: -len(one.rows) * len(one.columns))
    if not relations:
        return None
    [first, *_] = relations
    own = [column.name for column in first.columns]
    is_unnamed = len(names) == len(own) and not set(names) & set(own)
    columns = tuple(
        Column(new, column.kind, len(set(cells)) == len(cells) and None not in cells)
        for column, new in zip(first.columns, names if is_unnamed else own, strict=True)
        for cells in [first.values(column.name)]
    )
    return Relation(first.call, (), first.noun, columns, first.rows, is_list=True)


def _references(tables: Sequence[Table]) -> list[Reference]:
    """Return the columns that hold only keys of another table; of numbers the name must say so too."""
    found = []
    for table in tables:
        for column in table.rows.columns:
            cells = {cell for cell in table.rows.values(column.name) if cell is not None}
            for target in tables:
                for key in target.rows.columns:
                    if target.name == table.name or not key.is_key or key.kind != column.kind:
                        continue
                    is_named = target.noun in human(column.name) or (key.name == column.name != "id")
                    is_text = column.kind == "text" and len(cells) >= _MIN_SHARED
                    if cells and cells <= set(target.rows.values(key.name)) and (is_named or is_text):
                        found.append(Reference(table.name, column.name, target.name, key.name))
    return found


async def find_creators(found: Sequence[SqlTool], reader: SqlTool, session: Session) -> list[SqlTool]:
    """Return the parameters that take statements which create tables; the session is used up."""
    creators = []
    for number, one in enumerate(found):
        name = f"turnwise_{number}"
        await session.call(one.call(f"CREATE TABLE {name} (id INTEGER)"))
        shown = await session.call(reader.call(select("COUNT(*) AS num", name)))
        if not shown.is_error and shown.relations:
            creators.append(one)
    return creators


async def find_writer(found: Sequence[SqlTool], database: Database, session: Session) -> SqlTool | None:
    """Return the parameter that takes statements which change rows; the session is used up."""
    table = database.tables[0]
    column = table.rows.columns[0].name
    count = database.reader.call(select("COUNT(*) AS num", named(table.name)))
    before = await session.call(count)
    value = next(cell for cell in table.rows.values(column) if cell is not None)
    statement = delete(table.name, f"{named(column)} = {literal(value)}")
    for one in found:
        await session.call(one.call(statement))
        after = await session.call(count)
        if not after.is_error and after.text != before.text:
            return one
    return None
