"""Learn the tables behind tools that take SQL: their columns, statistics, sample rows and references."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.explore.first.caller import ServerCaller, Session, SessionLost
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.sql.result_rows import Cell, Row, rows_in
from turnwise.explore.first.sql.schema import (
    Column,
    Database,
    Reference,
    SchemaCall,
    Table,
    identifier,
    literal,
    reference_candidates,
)
from turnwise.explore.first.sql_queries import changes_rows, creates_tables, wants_sql
from turnwise.explore.first.survey import Survey
from turnwise.explore.first.tool_verbs import presumes_reading
from turnwise.explore.survey.parameters import Parameter, parameters_of
from turnwise.types import Tool

MAX_TABLES = 24
MAX_COLUMNS = 24
MAX_REFERENCES = 24
_SAMPLE_SIZES = (60, 20, 6)
"""Rows that are asked for, until the result fits the result budget."""
_MIN_ROWS = 3
"""A table with fewer rows gives no questions."""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """Two statements of one kind of database: all columns of all tables, and the columns of one table."""

    columns: str
    columns_of: str


_DIALECTS = (
    _Dialect(
        "SELECT m.name AS table_name, p.name AS column_name FROM sqlite_master AS m "
        "JOIN pragma_table_info(m.name) AS p WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' "
        "ORDER BY m.name, p.cid",
        "SELECT name, type FROM pragma_table_info({table})",
    ),
    _Dialect(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema NOT IN "
        "('information_schema', 'pg_catalog', 'mysql', 'performance_schema', 'sys') "
        "ORDER BY table_name, ordinal_position",
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = {table}",
    ),
)


async def find_databases(
    callers: Mapping[str, ServerCaller], survey: Survey, changers: Iterable[str]
) -> list[Database]:
    """Return the databases of all servers; a server that fails, or whose tables stay unknown, has none."""
    excluded = frozenset(changers)
    found: list[Database] = []
    for record in survey.records.values():
        tool = record.tool
        parameter = sql_parameter(tool)
        is_reader = presumes_reading(tool) and tool.name not in excluded and record.num_answers
        if parameter is None or not is_reader or creates_tables(parameter.description):
            continue
        caller = callers[tool.server]
        try:
            search = _Search(await caller.kept_session(), tool, parameter.name)
            database = await search.database(survey)
        except SessionLost:
            database = None
        await caller.end_session()
        if database is not None and all(other.tool.server != tool.server for other in found):
            found.append(database)
    return found


def sql_parameter(tool: Tool) -> Parameter | None:
    """Return the parameter that takes a statement, if the tool needs nothing else."""
    parameters = parameters_of(tool)
    required = [one for one in parameters if one.is_required] or list(parameters)
    if len(required) == 1 and wants_sql(required[0].name, required[0].description):
        return required[0]
    return None


class _Search:
    """The statements that are made to learn one database."""

    def __init__(self, session: Session, tool: Tool, parameter: str) -> None:
        self._session = session
        self._tool = tool
        self._parameter = parameter

    async def database(self, survey: Survey) -> Database | None:
        dialect, names = await self._columns()
        tables = [
            table
            for name, columns in list(names.items())[:MAX_TABLES]
            if (table := await self._table(name, columns)) is not None
        ]
        if not tables:
            return None
        server_observations = [one for one in survey.observations if one.tool.server == self._tool.server]
        descriptions = [
            (table.name, call)
            for table in tables
            if (call := self._describing(table, server_observations, dialect)) is not None
        ]
        writer, creator = _writers(survey, self._tool.server)
        return Database(
            self._tool,
            self._parameter,
            tuple(tables),
            tuple(await self._references(tables)),
            self._listing(tables, server_observations),
            tuple(descriptions),
            writer,
            creator,
        )

    async def _rows(self, statement: str) -> list[Row]:
        """Return the rows of a statement; none if it fails or its result is cut."""
        reply = await self._session.call(self._tool, {self._parameter: statement})
        if reply.document is None or reply.document.is_cut:
            return []
        return rows_in(reply.document.text)

    async def _columns(self) -> tuple[_Dialect | None, dict[str, list[str]]]:
        for dialect in _DIALECTS:
            names: dict[str, list[str]] = {}
            for row in await self._rows(dialect.columns):
                if len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], str):
                    names.setdefault(row[0], []).append(row[1])
            if names:
                return dialect, {table: columns[:MAX_COLUMNS] for table, columns in names.items()}
        return None, {}

    async def _table(self, name: str, columns: Sequence[str]) -> Table | None:
        parts = ", ".join(
            f"COUNT({identifier(column)}) AS n{place}, COUNT(DISTINCT {identifier(column)}) AS d{place}"
            for place, column in enumerate(columns)
        )
        rows = await self._rows(f"SELECT COUNT(*) AS num_rows, {parts} FROM {identifier(name)}")  # noqa: S608
        counts = [value for value in rows[0] if isinstance(value, int)] if rows else []
        if len(counts) != 1 + 2 * len(columns) or counts[0] < _MIN_ROWS:
            return None
        samples = await self._samples(name, columns)
        if not samples:
            return None
        values: list[tuple[Cell, ...]] = list(zip(*samples, strict=True))
        return Table(
            name,
            counts[0],
            tuple(
                Column(column, counts[1 + 2 * place], counts[2 + 2 * place], values[place])
                for place, column in enumerate(columns)
            ),
        )

    async def _samples(self, name: str, columns: Sequence[str]) -> list[Row]:
        listed = ", ".join(map(identifier, columns))
        for size in _SAMPLE_SIZES:
            statement = f"SELECT {listed} FROM {identifier(name)} ORDER BY 1 LIMIT {size}"  # noqa: S608
            rows = await self._rows(statement)
            if rows and all(len(row) == len(columns) for row in rows):
                return rows
        return []

    async def _references(self, tables: Sequence[Table]) -> list[Reference]:
        """Return the candidates for which every value of the column has its row in the other table."""
        found = []
        for candidate in reference_candidates(tables)[:MAX_REFERENCES]:
            rows = await self._rows(
                f"SELECT COUNT(*) AS num_rows FROM {candidate.child.sql} "  # noqa: S608
                f"JOIN {candidate.parent.sql} ON {candidate.condition}"
            )
            if rows and rows[0] == (candidate.column.num_values,):
                found.append(candidate)
        return found

    def _listing(self, tables: Sequence[Table], observations: Sequence[Observation]) -> SchemaCall | None:
        """Return a call without arguments that names all tables."""
        for observation in observations:
            is_listing = not observation.arguments and presumes_reading(observation.tool)
            if is_listing and all(table.name in observation.document.text for table in tables):
                return SchemaCall(observation.tool, ())
        return None

    def _describing(
        self, table: Table, observations: Sequence[Observation], dialect: _Dialect | None
    ) -> SchemaCall | None:
        """Return a call that shows a table's columns: a tool for that, else a statement."""
        for observation in observations:
            given: dict[str, Any] = observation.plain_arguments
            shows_all = all(column.name in observation.document.text for column in table.columns)
            if list(given.values()) == [table.name] and shows_all and presumes_reading(observation.tool):
                return SchemaCall(observation.tool, tuple(given.items()))
        if dialect is None:
            return None
        statement = dialect.columns_of.format(table=literal(table.name))
        return SchemaCall(self._tool, ((self._parameter, statement),))


def _writers(survey: Survey, server: str) -> tuple[tuple[Tool, str] | None, tuple[Tool, str] | None]:
    """Return the server's tool for statements that change rows, and the one for new tables."""
    writer: tuple[Tool, str] | None = None
    creator: tuple[Tool, str] | None = None
    for record in survey.records.values():
        tool = record.tool
        parameter = sql_parameter(tool) if tool.server == server and not presumes_reading(tool) else None
        if parameter is None:
            continue
        said = f"{tool.description[:300]} {parameter.description[:300]}"
        if creates_tables(said) and not changes_rows(said):
            creator = creator or (tool, parameter.name)
        else:
            writer = writer or (tool, parameter.name)
    return writer, creator
