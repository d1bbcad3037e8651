"""The only value of an answer: what a query language gives back."""

from collections.abc import Iterator, Sequence

from turnwise.explore.algebra.columns import Roles
from turnwise.explore.algebra.query import Form, Query, Record
from turnwise.explore.algebra.sql_text import SqlTable
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
    del relation, roles, is_complete
    yield from ()


def answer_of(relations: Sequence[Relation]) -> Scalar:
    """Return the value; LookupError if there is not exactly one."""
    cells = [cell for relation in relations for row in relation.rows for cell in row if cell is not None]
    if len(cells) != 1:
        raise LookupError(f"{len(cells)} values instead of one")
    return cells[0]


def answer(query: Query, records: Sequence[Record]) -> Scalar:
    del query
    [[cell]] = [record.values() for record in records]
    return cell


def form(query: Query) -> Form:
    if query.function:
        return Form.ROUNDED
    return Form.NUMBER if query.kind in ("integer", "number") else Form.TEXT


def phrase(query: Query, things: Things) -> str:
    del query
    return things.subject


def sql(query: Query, table: SqlTable) -> str:
    del query, table
    return ""
