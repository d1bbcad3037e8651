"""The mean of a column: "the average price of all items"."""

import math
import random
from collections.abc import Iterator

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.columns import (
    column_noun,
    form_of_computed,
    interleaved,
    numbers_of,
    over_all,
    picked,
    quantity_columns,
    rounded,
    rows_noun,
    same_table,
    tables_of,
)
from turnwise.explore.first.query import Query
from turnwise.tasks.proof.answers import is_clear

MIN_ROWS = 3


def mean(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield means of columns of quantities."""
    return interleaved([_means(table, chance) for table in tables_of(document, min_rows=MIN_ROWS)])


def _means(table: Table, chance: random.Random) -> Iterator[Query]:
    columns = [column for column in quantity_columns(table) if "year" not in column.lower()]
    for column in picked(columns, len(columns), chance):
        value = _mean(table, column)
        if is_clear(value):
            yield _query(table, column, value)


def _mean(table: Table, column: str) -> float:
    numbers = numbers_of(table, column)
    if not numbers:
        raise LookupError("the table is empty")
    return math.fsum(numbers) / len(numbers)


def _query(table: Table, column: str, value: float) -> Query:
    def read(document: Document) -> Scalar:
        return rounded(_mean(same_table(document, table), column))

    return Query(
        "mean",
        read,
        rounded(value),
        noun=over_all("average", column_noun(table, column), rows_noun(table)),
        key=f"mean/{table.name}/{column}",
        form=form_of_computed(rounded(value)),
        num_values=len(table.rows),
    )
