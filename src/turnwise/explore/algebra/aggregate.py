"""The total or the average of a column: "the total amount of the invoices whose status is “open”"."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from turnwise.explore.algebra.columns import Roles
from turnwise.explore.algebra.query import Form, Query, Record, by_group
from turnwise.explore.algebra.sql_text import SqlTable, select, where_of
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar

_LEAST = 2


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
    if not is_complete or not relation.is_list or len(relation.rows) < _LEAST:
        return
    kinds = {column.name: column.kind for column in relation.columns}
    for where, records in by_group(relation, roles.groups):
        for column in roles.measures:
            if sum(column in record for record in records) < _LEAST:
                continue
            for function in ("total", "average") if column in roles.amounts else ("average",):
                yield Query(
                    "aggregate", relation.path, relation.noun, column, kinds[column], where, function=function
                )


def answer(query: Query, records: Sequence[Record]) -> Scalar:
    cells = [Fraction(repr(record[query.column])) for record in records if query.column in record]
    total = sum(cells)
    if query.function == "average":
        return round(float(total / len(cells)), 6)
    return int(total) if total.denominator == 1 and query.kind == "integer" else round(float(total), 6)


def form(query: Query) -> Form:
    return Form.NUMBER if query.function == "total" and query.kind == "integer" else Form.ROUNDED


def phrase(query: Query, things: Things) -> str:
    return f"the {query.function} {things.column(query.column, query.kind)} of the {things.many(query.where)}"


def sql(query: Query, table: SqlTable) -> str:
    function = "SUM" if query.function == "total" else "AVG"
    return select(f"{function}({table.columns[query.column]})", table.source, where_of(table, query.where))
