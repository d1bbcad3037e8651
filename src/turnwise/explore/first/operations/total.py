"""The sum of a column: "the total quantity of all items"."""

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


def total(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield sums of columns that can be added up."""
    return interleaved([_sums(table, chance) for table in tables_of(document)])


def _sums(table: Table, chance: random.Random) -> Iterator[Query]:
    columns = quantity_columns(table, is_additive=True)
    for column in picked(columns, len(columns), chance):
        value = _sum(table, column)
        if isinstance(value, int) or is_clear(value):
            yield _query(table, column, value)


def _sum(table: Table, column: str) -> int | float:
    numbers = numbers_of(table, column)
    if all(isinstance(number, int) for number in numbers):
        return int(sum(numbers))
    return math.fsum(numbers)


def _query(table: Table, column: str, value: int | float) -> Query:
    def read(document: Document) -> Scalar:
        return rounded(_sum(same_table(document, table), column))

    return Query(
        "total",
        read,
        rounded(value),
        noun=over_all("total", column_noun(table, column), rows_noun(table)),
        key=f"total/{table.name}/{column}",
        form=form_of_computed(rounded(value)),
        num_values=len(table.rows),
    )
