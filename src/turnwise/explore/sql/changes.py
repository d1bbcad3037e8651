"""Requests that add, change or delete a row, with statements that show it."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from turnwise.explore.algebra.columns import Roles, is_machine_made, is_sayable, roles_of
from turnwise.explore.algebra.sql_text import delete, literal, named, select
from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.knowledge import entities_of
from turnwise.explore.programs.program import Program, Step
from turnwise.explore.records import Change, Scalar
from turnwise.explore.sql.discovery import Database, SqlTool, Table, columns_of
from turnwise.explore.survey.sessions import Session
from turnwise.explore.wording import questions
from turnwise.explore.wording.names import article, human, listing, quoted, stated_column
from turnwise.types import StateProbe

_PER_TABLE = 4
_MAX_CHARS = 1_800


@dataclass(frozen=True, slots=True)
class Edit:
    """A statement that changes a row, in words, and others that change another row or another value."""

    statement: str
    order: str
    mutations: tuple[str, ...]
    table: Table
    key: str
    value: Scalar
    """The row that it is about."""
    entities: tuple[str, ...]
    is_new_table: bool = False


def edits(database: Database, seed: int) -> Iterator[Edit]:
    """Yield edits of every table that has a key."""
    referred = {one.target for one in database.references}
    for table in database.tables:
        rng = random.Random(f"{seed}/edits/{table.name}")  # noqa: S311 (drawn data, not a secret)
        roles = roles_of(table.rows)
        keys = [column.name for column in table.rows.columns if column.is_key]
        if not table.is_whole or not keys:
            continue
        yield from (one for _ in range(_PER_TABLE) if (one := _insertion(table, keys[0], roles, rng)))
        names = [name for name in roles.names if not any(map(is_machine_made, table.rows.values(name)))]
        for name in names[:1]:
            yield from (one for _ in range(_PER_TABLE) if (one := _update(table, name, roles, rng)))
            if table.name not in referred:
                yield from (_deletion(table, name, rng) for _ in range(_PER_TABLE))


def _condition(name: str, value: Scalar) -> str:
    return f"{named(name)} = {literal(value)}"


def _insertion(table: Table, key: str, roles: Roles, rng: random.Random) -> Edit | None:
    records = list(table.rows.records())
    base = dict(rng.choice(records))
    for column in table.rows.columns:
        if column.name not in base:
            continue
        cells = [record[column.name] for record in records if column.name in record]
        if column.name in roles.names or column.is_key:
            value = _new_value(cells, rng)
            if value is None:
                return None
            base[column.name] = value
        else:
            base[column.name] = rng.choice(cells)
    if not all(is_sayable(value) for value in base.values()):
        return None

    def statement(values: Mapping[str, Scalar]) -> str:
        columns = ", ".join(map(named, values))
        return (
            f"INSERT INTO {named(table.name)} ({columns}) "  # noqa: S608
            f"VALUES ({', '.join(map(literal, values.values()))})"
        )

    said = listing([f"{human(name)} {quoted(value)}" for name, value in base.items()])
    others = [name for name in base if name != key]
    mutations = []
    for name in others[:3]:
        cells = [record[name] for record in records if name in record and record[name] != base[name]]
        if cells:
            mutations.append(statement({**base, name: rng.choice(cells)}))
    return Edit(
        statement(base),
        f"add {article(table.noun)} with {said}",
        tuple(mutations),
        table,
        key,
        base[key],
        entities_of([base[name] for name in base if name in roles.names]),
    )


def _new_value(cells: Sequence[Scalar], rng: random.Random) -> Scalar | None:
    """Return a value that looks like those of a column and is not among them."""
    if all(isinstance(cell, int) and not isinstance(cell, bool) for cell in cells):
        return max(int(cell) for cell in cells) + 1
    texts = [cell.split() for cell in cells if isinstance(cell, str)]
    for _ in range(20):
        first, last = rng.choice(texts or [[]]), rng.choice(texts or [[]])
        value = " ".join([*first[: max(1, len(first) - 1)], *last[-1:]])
        if value and value not in cells and len(first) > 1:
            return value
    return None


def _update(table: Table, name: str, roles: Roles, rng: random.Random) -> Edit | None:
    records = [record for record in table.rows.records() if name in record]
    record, other = rng.sample(records, 2)
    columns = [column for column in (*roles.measures, *roles.groups) if column in record]
    if not columns:
        return None
    column = rng.choice(columns)
    cells = sorted(
        {one[column] for one in records if column in one and one[column] != record[column]}, key=str
    )
    if len(cells) < 2 or not all(is_sayable(cell) for cell in cells):
        return None
    value, wrong = rng.sample(cells, 2)

    def statement(row: Mapping[str, Scalar], new: Scalar) -> str:
        changed = f"{named(column)} = {literal(new)}"
        where = _condition(name, row[name])
        return f"UPDATE {named(table.name)} SET {changed} WHERE {where}"  # noqa: S608

    kinds = {one.name: one.kind for one in table.rows.columns}
    what = f"{stated_column(column, table.noun, kinds[column])} of the {table.noun}"
    order = f"change the {what} {quoted(record[name])} to {quoted(value)}"
    mutations = (statement(record, wrong), statement(other, value))
    entities = entities_of([record[name]])
    return Edit(statement(record, value), order, mutations, table, name, record[name], entities)


def _deletion(table: Table, name: str, rng: random.Random) -> Edit:
    records = [record for record in table.rows.records() if name in record]
    record, other = rng.sample(records, 2)
    first, second = (delete(table.name, _condition(name, one[name])) for one in (record, other))
    order = f"delete the {table.noun} {quoted(record[name])}"
    return Edit(first, order, (second,), table, name, record[name], entities_of([record[name]]))


def creations(database: Database) -> Iterator[Edit]:
    """Yield statements that create a table with some of the columns of another one."""
    for table in database.tables:
        columns = table.rows.columns[1:4]
        types = {"integer": "INTEGER", "number": "REAL"}
        typed = [(column.name, types.get(column.kind, "TEXT")) for column in columns]
        if len(typed) < 2:
            continue
        name = f"{table.name}_archive"

        def statement(pairs: Sequence[tuple[str, str]], name: str = name) -> str:
            return f"CREATE TABLE {named(name)} ({', '.join(f'{named(one)} {kind}' for one, kind in pairs)})"

        said = listing([f"“{one}” ({kind})" for one, kind in typed])
        order = f"create a table “{name}” with the columns {said}"
        mutations = (statement(typed[:-1]), statement([*typed[:-1], (f"{typed[-1][0]}_2", typed[-1][1])]))
        yield Edit(statement(typed), order, mutations, table, "", "", (name,), is_new_table=True)


async def edit_draft(database: Database, writer: SqlTool, edit: Edit, session: Session) -> Draft | None:
    """Make an edit in a fresh session and return its draft, or None if nothing shows it."""
    calls = [database.reader.call(statement) for statement in _showing(edit)]
    before = [await session.call(call) for call in calls]
    calls = [call for call, answer in zip(calls, before, strict=True) if not answer.is_error]
    written = await session.call(writer.call(edit.statement))
    after = [await session.call(call) for call in calls]
    was = {answer.call.key: answer.text for answer in before}
    is_shown = any(answer.text != was[answer.call.key] for answer in after)
    if written.is_error or any(answer.is_error for answer in after) or not is_shown:
        return None
    probes = tuple(
        StateProbe(call.tool, call.arguments, equals=answer.text)
        for call, answer in zip(calls, after, strict=True)
        if answer.text.strip()
    )
    call = writer.call(edit.statement)
    mutations = tuple(writer.call(statement) for statement in edit.mutations)
    change = Change(call, (), probes, (), mutations, ())
    program = Program("change", (Step(call.server, call.tool, call.arguments),), changes=(change,))
    return Draft(program, questions.change([edit.order]), edit.entities, 1.0)


def _showing(edit: Edit) -> list[str]:
    """Return statements that show the row and that the others are as they were."""
    if edit.is_new_table:
        return columns_of(f"{edit.table.name}_archive")
    table = named(edit.table.name)
    size = sum(len(str(cell)) for row in edit.table.rows.rows for cell in row)
    if size <= _MAX_CHARS // 2:
        return [select("*", table, f" ORDER BY {named(edit.key)}")]
    sums = [
        f"SUM({named(column.name)})"
        for column in edit.table.rows.columns
        if column.kind in ("integer", "number")
    ]
    return [
        select("*", table, f" WHERE {_condition(edit.key, edit.value)}"),
        select(", ".join(["COUNT(*)", *sums]), table),
    ]
