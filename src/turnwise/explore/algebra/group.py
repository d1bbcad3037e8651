"""The group with the most rows or the highest total: "the customer with the most invoices"."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from turnwise.explore.algebra.columns import Roles
from turnwise.explore.algebra.query import Form, Query, Record
from turnwise.explore.algebra.sql_text import SqlTable, select, where_of
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar

_LEAST = 5


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
    if not is_complete or not relation.is_list or len(relation.rows) < _LEAST:
        return
    records = list(relation.records())
    for by in roles.groups:
        if any(isinstance(record.get(by), bool) for record in records):
            continue
        for column in ("", *roles.amounts):
            query = Query("group", relation.path, relation.noun, column, "text", (), by, "most")
            if _ranked(query, records)[1:]:
                yield query


def _ranked(query: Query, records: Sequence[Record]) -> list[tuple[Scalar, Fraction]]:
    """Return the groups with their sizes or totals, the first alone in its place; empty if it is not."""
    sums: Counter[Scalar] = Counter()
    for record in records:
        if query.by in record:
            value = Fraction(repr(record[query.column])) if query.column else Fraction(1)
            sums[record[query.by]] += value  # type: ignore[assignment]  # a Counter of fractions
    ranked = [(group, Fraction(total)) for group, total in sums.most_common()]
    return ranked if len(ranked) > 1 and ranked[0][1] > ranked[1][1] else []


def answer(query: Query, records: Sequence[Record]) -> Scalar:
    return _ranked(query, records)[0][0]


def form(query: Query) -> Form:
    del query
    return Form.TEXT


def phrase(query: Query, things: Things) -> str:
    by = things.column(query.by)
    if not query.column:
        return f"the most common {by} of the {things.many(query.where)}"
    return f"the {by} whose {things.many(query.where)} have the highest total {things.column(query.column)}"


def sql(query: Query, table: SqlTable) -> str:
    value = f"SUM({table.columns[query.column]})" if query.column else "COUNT(*)"
    by = table.columns[query.by]
    rest = f"{where_of(table, query.where, query.by)} GROUP BY {by} ORDER BY {value} DESC LIMIT 1"
    return select(by, table.source, rest)
