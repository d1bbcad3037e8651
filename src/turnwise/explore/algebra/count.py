"""How many rows there are: "the number of invoices whose status is “open”"."""

from collections.abc import Iterator, Sequence

from turnwise.explore.algebra.columns import Roles
from turnwise.explore.algebra.query import Condition, Form, Query, Record
from turnwise.explore.algebra.sql_text import SqlTable, select, where_of
from turnwise.explore.algebra.things import Things
from turnwise.explore.records import Relation, Scalar

_LEAST, _MOST = 2, 24


def drafts(relation: Relation, roles: Roles, *, is_complete: bool) -> Iterator[Query]:
    if not is_complete or not relation.is_list or len(relation.rows) < _LEAST:
        return
    records = list(relation.records())
    candidates: list[tuple[Condition, ...]] = [()]
    single = [
        Condition(name, "is", value)
        for name in roles.groups
        for value in dict.fromkeys(relation.values(name))
        if value is not None
    ]
    candidates += [(one,) for one in single]
    candidates += [(_half(relation, name),) for name in roles.measures]
    candidates += [
        (one, other)
        for place, one in enumerate(single)
        for other in single[place + 1 :]
        if one.column != other.column
    ]
    num = 0
    for where in candidates:
        kept = [record for record in records if all(one.holds(record) for one in where)]
        if len(kept) >= _LEAST and (not where or len(kept) < len(records)) and num < _MOST:
            num += 1
            yield Query("count", relation.path, relation.noun, kind="integer", where=where)


def _half(relation: Relation, name: str) -> Condition:
    """Return the condition of being above a round number near the median."""
    cells = sorted(cell for cell in relation.values(name) if isinstance(cell, int | float))
    median = cells[len(cells) // 2]
    size = 10 ** max(0, len(str(int(abs(median)))) - 1)
    return Condition(name, "above", int(median // size * size))


def answer(query: Query, records: Sequence[Record]) -> Scalar:
    return len(records)


def form(query: Query) -> Form:
    del query
    return Form.NUMBER


def phrase(query: Query, things: Things) -> str:
    return f"the number of {things.many(query.where)}"


def sql(query: Query, table: SqlTable) -> str:
    return select("COUNT(*)", table.source, where_of(table, query.where))
