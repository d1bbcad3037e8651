"""The row with the highest or lowest value: "the title of the book with the highest price"."""

from collections.abc import Iterator, Sequence

from turnwise.explore.algebra.columns import Roles
from turnwise.explore.algebra.query import Form, Query, Record, by_group
from turnwise.explore.algebra.sql_text import SqlTable, select, where_of
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar

_LEAST = 3
_DATES = {"highest": "latest", "lowest": "earliest"}


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
    if not is_complete or not relation.is_list or len(relation.rows) < _LEAST:
        return
    kinds = {column.name: column.kind for column in relation.columns}
    for where, records in by_group(relation, roles.groups):
        for by in (*roles.measures, *roles.dates):
            for function in ("highest", "lowest"):
                values = [record[by] for record in records if by in record]
                if len(values) < _LEAST or values.count(_most(values, function)) != 1:
                    continue
                for column in (*roles.best, by) if kinds[by] != "date" else roles.best:
                    if column != by or where:
                        yield Query(
                            "extreme",
                            relation.path,
                            relation.noun,
                            column,
                            kinds[column],
                            where,
                            by,
                            function,
                            kinds[by],
                        )


def _most(values: Sequence[Scalar], function: str) -> Scalar:
    return max(values) if function == "highest" else min(values)


def answer(query: Query, records: Sequence[Record]) -> Scalar:
    values = [record[query.by] for record in records if query.by in record]
    best = _most(values, query.function)
    [record] = [record for record in records if record.get(query.by) == best]
    return record[query.column]


def form(query: Query) -> Form:
    return Form.NUMBER if query.kind in ("integer", "number") else Form.TEXT


def phrase(query: Query, things: Things) -> str:
    by = things.column(query.by, query.by_kind)
    if query.column == query.by:
        return f"the {query.function} {by} of the {things.many(query.where)}"
    function = _DATES[query.function] if query.by_kind == "date" else query.function
    column, row = things.column(query.column, query.kind), f"{things.one()} with the {function} {by}"
    rest = f" among the {things.many(query.where)}" if query.where else ""
    return f"the {column} of {row}{rest}"


def sql(query: Query, table: SqlTable) -> str:
    order = "DESC" if query.function == "highest" else "ASC"
    rest = f"{where_of(table, query.where, query.by)} ORDER BY {table.columns[query.by]} {order} LIMIT 1"
    return select(table.columns[query.column], table.source, rest)
