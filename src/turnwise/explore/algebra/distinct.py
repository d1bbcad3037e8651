"""How many different values a column has: "the number of different cities of the customers"."""

from collections.abc import Iterator, Sequence

from turnwise.explore.algebra.columns import Roles
from turnwise.explore.algebra.query import Form, Query, Record
from turnwise.explore.algebra.sql_text import SqlTable, select, where_of
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar
from turnwise.explore.wording.names import plural

_LEAST = 3


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
    if not is_complete or not relation.is_list:
        return
    for column in relation.columns:
        cells = [cell for cell in relation.values(column.name) if cell is not None]
        if column.kind == "text" and column.name in roles.asked and _LEAST <= len(set(cells)) < len(cells):
            yield Query("distinct", relation.path, relation.noun, column.name, "integer")


def answer(query: Query, records: Sequence[Record]) -> Scalar:
    return len({record[query.column] for record in records if query.column in record})


def form(query: Query) -> Form:
    del query
    return Form.NUMBER


def phrase(query: Query, things: Things) -> str:
    return f"the number of different {plural(things.column(query.column))} of the {things.many(query.where)}"


def sql(query: Query, table: SqlTable) -> str:
    column = table.columns[query.column]
    return select(f"COUNT(DISTINCT {column})", table.source, where_of(table, query.where))
