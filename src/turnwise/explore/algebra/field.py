"""A field of the one thing that an answer is about: "the status of the invoice “INV-7”"."""

from collections.abc import Iterator, Sequence

from turnwise.explore.algebra.columns import Roles
from turnwise.explore.algebra.query import Form, Query, Record
from turnwise.explore.algebra.sql_text import SqlTable
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar

_MOST = 12


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
    del is_complete
    if relation.is_list or len(relation.rows) != 1:
        return
    kinds = {column.name: column.kind for column in relation.columns}
    for name in roles.asked[:_MOST]:
        yield Query("field", relation.path, relation.noun, name, kinds[name])


def answer(query: Query, records: Sequence[Record]) -> Scalar:
    [record] = records
    return record[query.column]


def form(query: Query) -> Form:
    if query.function:
        return Form.ROUNDED
    return Form.NUMBER if query.kind in ("integer", "number") else Form.TEXT


def phrase(query: Query, things: Things) -> str:
    subject = f" of {things.subject}" if things.subject else things.tail
    return f"the {things.column(query.column, query.kind)}{subject}"


def sql(query: Query, table: SqlTable) -> str:
    del query, table
    return ""
