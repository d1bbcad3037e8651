"""Quantities of some of the rows: "the total price of all products whose category is “lighting”"."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.columns import (
    column_noun,
    form_of,
    form_of_computed,
    interleaved,
    is_list,
    label_column,
    numbers_of,
    over_all,
    owned,
    picked,
    plain_columns,
    quantity_columns,
    rounded,
    row_noun,
    rows_noun,
    same_table,
    stated,
    superlative,
    tables_of,
    values_of,
)
from turnwise.explore.first.operations.extreme import winning_row
from turnwise.explore.first.query import Query
from turnwise.explore.first.wording.names import condition, fits_in_sentence
from turnwise.tasks.proof.answers import is_clear

MIN_ROWS = 4
MAX_GROUPS = 12
MIN_IN_GROUP = 2
MIN_COMPARED = 3


def grouped(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield sums, means and winners among the rows that share a value."""
    tables = [table for table in tables_of(document, min_rows=MIN_ROWS) if not is_list(table)]
    return interleaved([_queries(table, chance) for table in tables])


def _queries(table: Table, chance: random.Random) -> Iterator[Query]:
    kinds = [column for column in plain_columns(table) if _is_kind(table, column)]
    pairs = [
        (kind, value, quantity)
        for kind in kinds
        for value, number in Counter(values_of(table, kind)).items()
        if MIN_IN_GROUP <= number < len(table.rows)
        for quantity in quantity_columns(table)
        if quantity != kind
    ]
    additive = quantity_columns(table, is_additive=True)
    for kind, value, quantity in picked(pairs, len(pairs), chance):
        yield from _winner(table, kind, value, quantity)
        if quantity in additive:
            yield from _aggregate(table, kind, value, quantity, "total")
        yield from _aggregate(table, kind, value, quantity, "average")


def _is_kind(table: Table, column: str) -> bool:
    values = values_of(table, column)
    is_text = all(
        isinstance(value, str) and fits_in_sentence(value) and value.strip() == value != ""
        for value in values
    )
    return is_text and len(values) == len(table.rows) and 1 < len(set(values)) <= MAX_GROUPS


def _those(table: Table, kind: str, value: Scalar) -> Table:
    """Return the table with the rows that have the value."""
    rows = tuple(row for row in table.rows if row.get(kind) == value)
    if not rows:
        raise LookupError(f"no row has {kind} {value!r}")
    return Table(table.path, table.columns, rows, table.noun)


def _sum(numbers: list[float]) -> float:
    return int(sum(numbers)) if all(isinstance(number, int) for number in numbers) else math.fsum(numbers)


_AGGREGATES: Mapping[str, Callable[[list[float]], float]] = {
    "total": _sum,
    "average": lambda numbers: math.fsum(numbers) / len(numbers),
}


def _aggregate(table: Table, kind: str, value: Scalar, quantity: str, name: str) -> Iterator[Query]:
    def compute(whole: Table) -> Scalar:
        return rounded(_AGGREGATES[name](numbers_of(_those(whole, kind, value), quantity)))

    exact = _AGGREGATES[name](numbers_of(_those(table, kind, value), quantity))
    if not isinstance(exact, int) and not is_clear(exact):
        return
    rows = f"{rows_noun(table)} {condition(column_noun(table, kind), value)}"
    yield Query(
        "grouped",
        lambda document: compute(same_table(document, table)),
        compute(table),
        noun=over_all(name, column_noun(table, quantity), rows),
        key=f"grouped/{table.name}/{name} {quantity}/{kind}={value}",
        form=form_of_computed(rounded(exact)),
        num_values=len(table.rows),
    )


def _winner(table: Table, kind: str, value: Scalar, quantity: str) -> Iterator[Query]:
    label = label_column(table)
    those = _those(table, kind, value)
    if label is None or label in (kind, quantity) or len(those.rows) < MIN_COMPARED:
        return
    for end in ("highest", "lowest"):

        def read(document: Document, end: str = end) -> Scalar:
            found = _those(same_table(document, table), kind, value)
            return stated(found.rows[winning_row(found, quantity, end)][label])

        try:
            winner = stated(those.rows[winning_row(those, quantity, end)][label])
        except LookupError:
            continue
        by = column_noun(table, quantity)
        owner = f"the {row_noun(table)} with the {superlative(end, by)} {by}"
        among = f"among those {condition(column_noun(table, kind), value)}"
        key = f"grouped/{table.name}/{label}/{end} {quantity}/{kind}={value}"
        noun = f"{owned(column_noun(table, label), owner)} {among}"
        yield Query("grouped", read, winner, noun, key, form_of(winner), len(table.rows))
