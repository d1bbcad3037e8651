"""A cell of one row of a list: "the amount of the invoice whose number is “INV-7”"."""

from collections import Counter
from collections.abc import Iterator, Sequence

from turnwise.explore.algebra.columns import Roles, is_machine_made, is_sayable
from turnwise.explore.algebra.query import Condition, Form, Query, Record
from turnwise.explore.algebra.sql_text import SqlTable, select, where_of
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar
from turnwise.explore.wording.names import entity_noun, is_opaque, quoted

_MOST_ROWS, _MOST_COLUMNS = 40, 6


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
    del is_complete
    if not relation.is_list:
        return
    kinds = {column.name: column.kind for column in relation.columns}
    if len(relation.rows) == 1:  # the only one that a search finds
        found = dict(next(relation.records()))
        for name in (*roles.names[:1], *roles.asked[:_MOST_COLUMNS]):
            if name in found and is_sayable(found[name]):
                yield Query("look_up", relation.path, relation.noun, name, kinds[name])
        return
    names = [name for name in roles.names if not all(map(is_machine_made, relation.values(name)))][:1]
    for name in names or roles.names[:1]:
        for place, asked in enumerate(column for column in roles.asked if column != name):
            if place >= _MOST_COLUMNS:
                break
            counts = Counter(relation.values(asked))
            for record in list(relation.records())[:_MOST_ROWS]:
                if (
                    asked in record
                    and is_sayable(record[asked])
                    and counts[record[asked]] <= len(relation.rows) / 2
                ):
                    yield Query(
                        "look_up",
                        relation.path,
                        relation.noun,
                        asked,
                        kinds[asked],
                        (Condition(name, "is", record[name]),),
                    )


def answer(query: Query, records: Sequence[Record]) -> Scalar:
    [record] = records
    return record[query.column]


def form(query: Query) -> Form:
    if query.function:
        return Form.ROUNDED
    return Form.NUMBER if query.kind in ("integer", "number") else Form.TEXT


def phrase(query: Query, things: Things) -> str:
    if not query.where:
        is_itself = things.column(query.column) in (things.noun, "item")
        return (
            things.one() if is_itself else f"the {things.column(query.column, query.kind)} of {things.one()}"
        )
    [condition] = query.where
    is_plain = entity_noun(condition.column) in ("", things.noun) or is_opaque(condition.column)
    row = f"the {things.noun} {quoted(condition.value)}{things.tail}" if is_plain else things.one(query.where)
    return f"the {things.column(query.column, query.kind)} of {row}"


def sql(query: Query, table: SqlTable) -> str:
    return select(table.columns[query.column], table.source, where_of(table, query.where))
