"""How many rows are beyond a limit: "the number of products whose price is higher than 50"."""

import random
from collections.abc import Iterator, Sequence

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.columns import (
    column_noun,
    interleaved,
    numbers_of,
    picked,
    plain_columns,
    quantity_columns,
    rows_noun,
    same_table,
    tables_of,
    values_of,
)
from turnwise.explore.first.operations.extreme import is_date_column
from turnwise.explore.first.query import Form, Query
from turnwise.explore.first.wording.names import is_quoted_noun

MIN_ROWS = 4
_ROUND = (1, 2, 5)


def above(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield counts of the rows above or below a round number, or after a date, that some rows have."""
    return interleaved([_counts(table, chance) for table in tables_of(document, min_rows=MIN_ROWS)])


def _counts(table: Table, chance: random.Random) -> Iterator[Query]:
    columns = quantity_columns(table)
    for column in picked(columns, len(columns), chance):
        noun = column_noun(table, column)
        limit = _limit(numbers_of(table, column))
        if limit is not None and not is_quoted_noun(noun):
            for word in ("higher", "lower"):
                yield _numeric(table, column, noun, word, limit)
    for column in plain_columns(table):
        noun = column_noun(table, column, is_date=True)
        if is_date_column(table, column) and not is_quoted_noun(noun):
            days = sorted(str(value)[:10] for value in values_of(table, column))
            if days[0] < days[len(days) // 2] < days[-1]:
                yield _dated(table, column, noun, days[len(days) // 2])


def _limit(numbers: Sequence[float]) -> float | None:
    """Return a round number that no row has, with rows on both sides; None if there is none."""
    low, high = min(numbers), max(numbers)
    middle = sorted(numbers)[len(numbers) // 2]
    size = 1
    while size * 10 <= abs(middle):
        size *= 10
    steps = [first * size // 10 or first for first in _ROUND]
    near = [step * round(middle / step) for step in reversed(steps)]
    return next((limit for limit in near if low < limit < high and limit not in numbers), None)


def _numeric(table: Table, column: str, noun: str, word: str, limit: float) -> Query:
    def read(document: Document) -> Scalar:
        numbers = numbers_of(same_table(document, table), column)
        return sum(1 for number in numbers if (number > limit) == (word == "higher"))

    rows = rows_noun(table)
    value = sum(1 for number in numbers_of(table, column) if (number > limit) == (word == "higher"))
    text = f"the number of {rows} whose {noun} is {word} than {limit}"
    key = f"above/{table.name}/{column}/{word} {limit}"
    return Query("above", read, value, text, key, Form.NUMBER, len(table.rows))


def _dated(table: Table, column: str, noun: str, day: str) -> Query:
    def read(document: Document) -> Scalar:
        other = same_table(document, table)
        if not is_date_column(other, column):
            raise LookupError(f"{column!r} has no dates")
        return sum(1 for value in values_of(other, column) if str(value)[:10] > day)

    value = sum(1 for found in values_of(table, column) if str(found)[:10] > day)
    text = f"the number of {rows_noun(table)} whose {noun} is after {day}"
    return Query(
        "above", read, value, text, f"above/{table.name}/{column}/{day}", Form.NUMBER, len(table.rows)
    )
