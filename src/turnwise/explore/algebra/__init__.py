"""Questions about relations: each operation has its drafts, its answer, its words and its SQL."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from turnwise.explore.algebra import aggregate, count, distinct, extreme, field, group, look_up, only
from turnwise.explore.algebra.columns import Roles
from turnwise.explore.algebra.query import Form, Query, Record, chosen
from turnwise.explore.algebra.sql_text import SqlTable
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar


class Operation(Protocol):
    """What every file of an operation has."""

    def drafts(self, relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
        """Yield queries of a relation, the better ones first."""
        ...

    def answer(self, query: Query, records: Sequence[Record]) -> Scalar:
        """Return the answer; LookupError or ValueError if the records have none."""
        ...

    def form(self, query: Query) -> Form: ...

    def phrase(self, query: Query, things: Things) -> str:
        """Return what is asked for: "the number of invoices whose status is “open”"."""
        ...

    def sql(self, query: Query, table: SqlTable) -> str:
        """Return the query in SQL; empty if it has none."""
        ...


OPERATIONS: Mapping[str, Operation] = {
    "field": field,
    "look_up": look_up,
    "count": count,
    "extreme": extreme,
    "aggregate": aggregate,
    "group": group,
    "distinct": distinct,
    "only": only,
}


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> list[Query]:
    """Return the queries of a relation by turns of the operations."""
    found = [list(one.drafts(relation, roles, is_complete=is_complete)) for one in OPERATIONS.values()]
    longest = max(map(len, found))
    return [queries[place] for place in range(longest) for queries in found if place < len(queries)]


def answer(query: Query, relations: Sequence[Relation]) -> Scalar:
    """Return the answer to a query; LookupError or ValueError if there is none."""
    if query.operation == "only":
        return only.answer_of(relations)
    return OPERATIONS[query.operation].answer(query, chosen(query, relations))


def form(query: Query) -> Form:
    return OPERATIONS[query.operation].form(query)


def phrase(query: Query, things: Things) -> str:
    return OPERATIONS[query.operation].phrase(query, things)


def sql(query: Query, table: SqlTable) -> str:
    return OPERATIONS[query.operation].sql(query, table)
