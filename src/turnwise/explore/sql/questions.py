"""Questions about the rows of a database, each one statement of SQL."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from turnwise.explore import algebra
from turnwise.explore.algebra.columns import is_machine_made, roles_of
from turnwise.explore.algebra.query import Query
from turnwise.explore.algebra.sql_text import SqlTable, named
from turnwise.explore.algebra.things import Things
from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.knowledge import entities_of
from turnwise.explore.programs.program import Asked, Program, Step
from turnwise.explore.records import Cell, Column, Kind, Relation
from turnwise.explore.sql.discovery import Database, Reference, Table
from turnwise.explore.wording import questions
from turnwise.explore.wording.names import entity_noun

_PER_TABLE = 120
_NEED_ALL = ("extreme", "group")
"""Operations whose answer is unique only if all rows are known."""


def sql_drafts(database: Database) -> Iterator[Draft]:
    """Yield questions about single tables, and about tables with those that they refer to."""
    for table in database.tables:
        plain = SqlTable(
            named(table.name), {column.name: named(column.name) for column in table.rows.columns}
        )
        yield from _drafts(database, table, table.rows, plain, "query", ())
        joined = _joined(database, table)
        if joined is not None:
            relation, source, new = joined
            yield from _drafts(database, table, relation, source, "join", new)


def _drafts(
    database: Database, table: Table, relation: Relation, source: SqlTable, shape: str, new: Sequence[str]
) -> Iterator[Draft]:
    keys = {one.column for one in database.references if one.table == table.name}
    roles = roles_of(relation, keys)
    num = 0
    for query in algebra.drafts(relation, roles, is_complete=True):
        if (query.operation in _NEED_ALL and not table.is_whole) or (new and not query.columns & set(new)):
            continue
        statement = algebra.sql(query, source)
        if statement and num < _PER_TABLE:
            num += 1
            yield _draft(database, table, query, statement, shape)


def _draft(database: Database, table: Table, query: Query, statement: str, shape: str) -> Draft:
    call = database.reader.call(statement)
    form = algebra.form(query)
    kind: Kind = "text" if form == "text" else query.kind if query.operation != "count" else "integer"
    only = Query("only", (), "", kind=kind, function=query.function if form == "rounded" else "")
    program = Program(shape, (Step(call.server, call.tool, call.arguments),), (Asked(0, only),))
    phrase = algebra.phrase(query, Things(table.noun))
    worth = 1.0 + (shape == "join") + (query.operation in ("extreme", "aggregate", "group"))
    values = [one.value for one in query.where]
    worth -= 0.5 * sum(map(is_machine_made, values))
    return Draft(program, questions.ask(phrase, program.form), entities_of(values), worth)


def _joined(database: Database, table: Table) -> tuple[Relation, SqlTable, list[str]] | None:
    """Return a table with the names of what its rows refer to in place of the keys, and these columns."""
    columns = {column.name: f"t.{named(column.name)}" for column in table.rows.columns}
    source = f"{named(table.name)} AS t"
    extra: list[tuple[Column, tuple[Cell, ...]]] = []
    references = [one for one in database.references if one.table == table.name]
    for number, reference in enumerate(references, start=1):
        target = next(one for one in database.tables if one.name == reference.target)
        if not target.is_whole:
            continue
        condition = f"t.{named(reference.column)} = j{number}.{named(reference.key)}"
        source += f" JOIN {named(target.name)} AS j{number} ON {condition}"
        for column, name in _shown(target, reference):
            columns[name] = f"j{number}.{named(column.name)}"
            extra.append(
                (replace(column, name=name, is_key=False), _followed(table, target, reference, column))
            )
    if not extra:
        return None
    rows = tuple((*row, *(cells[place] for _, cells in extra)) for place, row in enumerate(table.rows.rows))
    relation = replace(table.rows, columns=(*table.rows.columns, *(column for column, _ in extra)), rows=rows)
    return relation, SqlTable(source, columns), [column.name for column, _ in extra]


def _shown(target: Table, reference: Reference) -> Iterator[tuple[Column, str]]:
    """Yield the column that names a row of the target and those that sort them, with their new names."""
    roles = roles_of(target.rows, {reference.key})
    noun = entity_noun(reference.column) or target.noun
    byname = {column.name: column for column in target.rows.columns}
    for name in [one for one in roles.names if one != reference.key][:1]:
        yield byname[name], noun
    for name in roles.groups[:2]:
        yield byname[name], f"{noun} {name}"


def _followed(table: Table, target: Table, reference: Reference, column: Column) -> tuple[Cell, ...]:
    cells = dict(zip(target.rows.values(reference.key), target.rows.values(column.name), strict=True))
    return tuple(cells.get(key) for key in table.rows.values(reference.column))
