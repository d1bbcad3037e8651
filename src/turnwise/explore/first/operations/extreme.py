"""The row with the largest or smallest number: "the name of the item with the highest price"."""

import random
from collections.abc import Callable, Iterator

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.columns import (
    answerable,
    column_noun,
    form_of,
    interleaved,
    label_column,
    numbers_of,
    owned,
    picked,
    plain_columns,
    quantity_columns,
    row_noun,
    rows_noun,
    same_table,
    stated,
    superlative,
    tables_of,
    values_of,
)
from turnwise.explore.first.query import Form, Query
from turnwise.explore.first.wording.names import is_iso_date

MIN_ROWS = 3
_ENDS: dict[str, Callable[[list[float]], float]] = {"highest": max, "lowest": min}
_DATE_ENDS: dict[str, Callable[[list[str]], str]] = {"latest": max, "earliest": min}


def extreme(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield the label of the winning row, then the winning value; only where one row wins."""
    return interleaved([_winners(table, chance) for table in tables_of(document, min_rows=MIN_ROWS)])


def _winners(table: Table, chance: random.Random) -> Iterator[Query]:
    label = label_column(table)
    columns = picked(quantity_columns(table), len(table.columns), chance)
    columns = [column for column in columns if column != label]
    dates = [column for column in plain_columns(table) if column != label and is_date_column(table, column)]
    if label is not None:
        pairs = [(column, end) for end in _ENDS for column in columns]
        pairs += [(column, end) for end in _DATE_ENDS for column in dates]
        for column, end in pairs:
            yield from _winner(table, label, column, end)
    for end in _ENDS:
        for column in columns:
            yield from _record(table, column, end)


def is_date_column(table: Table, column: str) -> bool:
    """Return whether every row has a date of the same form, so that the texts can be compared."""
    values = values_of(table, column)
    texts = [value for value in values if isinstance(value, str) and is_iso_date(value)]
    return len(texts) == len(table.rows) and len({(len(text), text[19:]) for text in texts}) == 1


def winning_row(table: Table, column: str, end: str) -> int:
    """Return the number of the only row with the extreme value; LookupError if several share it."""
    if end in _DATE_ENDS:
        if not is_date_column(table, column):
            raise LookupError(f"{column!r} has no dates that can be compared")
        texts = [str(value) for value in values_of(table, column)]
        places = [place for place, text in enumerate(texts) if text == _DATE_ENDS[end](texts)]
    else:
        numbers = numbers_of(table, column)
        if not numbers:
            raise LookupError("the table is empty")
        places = [place for place, number in enumerate(numbers) if number == _ENDS[end](numbers)]
    if len(places) != 1:
        raise LookupError(f"{len(places)} rows have the {end} {column!r}")
    return places[0]


def _winner(table: Table, label: str, column: str, end: str) -> Iterator[Query]:
    def read(document: Document) -> Scalar:
        other = same_table(document, table)
        return stated(other.rows[winning_row(other, column, end)][label])

    try:
        value = stated(table.rows[winning_row(table, column, end)][label])
    except LookupError:
        return
    if answerable(value):
        by = column_noun(table, column, is_date=end in _DATE_ENDS)
        noun = owned(column_noun(table, label), f"the {row_noun(table)} with the {superlative(end, by)} {by}")
        key = f"extreme/{table.name}/{label}/{end}/{column}"
        yield Query("extreme", read, value, noun, key, form_of(value), len(table.rows))


def _record(table: Table, column: str, end: str) -> Iterator[Query]:
    def read(document: Document) -> Scalar:
        numbers = numbers_of(same_table(document, table), column)
        if not numbers:
            raise LookupError("the table is empty")
        return _ENDS[end](numbers)

    value = _ENDS[end](numbers_of(table, column))
    if answerable(value):
        by = column_noun(table, column)
        noun = f"the {superlative(end, by)} {by} among the {rows_noun(table)}"
        key = f"extreme/{table.name}/{end}/{column}"
        yield Query("extreme", read, value, noun, key, Form.NUMBER, len(table.rows))
