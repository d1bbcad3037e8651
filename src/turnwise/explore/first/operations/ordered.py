"""A row by its place or rank: "the title of the first result"."""

import random
from collections.abc import Iterator

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.columns import (
    answerable,
    column_noun,
    form_of,
    interleaved,
    is_list,
    label_column,
    numbers_of,
    owned,
    picked,
    quantity_columns,
    row_noun,
    same_table,
    stated,
    superlative,
    tables_of,
    values_of,
)
from turnwise.explore.first.operations.extreme import is_date_column
from turnwise.explore.first.query import Query
from turnwise.explore.first.wording.names import ordinal

MIN_ROWS_RANKED = 4


def ordered(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield rows by rank in a column, then by their place in the table."""
    return interleaved([_places(table, chance) for table in tables_of(document)])


def _places(table: Table, chance: random.Random) -> Iterator[Query]:
    label = "item" if is_list(table) else label_column(table)
    if label is None:
        return
    if len(table.rows) >= MIN_ROWS_RANKED:
        columns = [column for column in quantity_columns(table) if column != label]
        for rank, end in ((2, "highest"), (2, "lowest"), (3, "highest")):
            for column in picked(columns, 2, chance):
                yield from _ranked(table, label, column, rank, end)
    if any(is_date_column(table, column) for column in table.columns):
        return  # "the first commit" would be the oldest one, wherever it is listed
    for place in (1, -1, 2, 3):
        if place <= len(table.rows):
            yield from _placed(table, label, place)


def _ranked(table: Table, label: str, column: str, rank: int, end: str) -> Iterator[Query]:
    def read(document: Document) -> Scalar:
        return stated(_row_by_rank(same_table(document, table), label, column, rank, end))

    try:
        value = stated(_row_by_rank(table, label, column, rank, end))
    except LookupError:
        return
    if answerable(value):
        what = column_noun(table, column)
        by = f"{ordinal(rank)} {superlative(end, what)} {what}"
        noun = owned(column_noun(table, label), f"the {row_noun(table)} with the {by}")
        key = f"ordered/{table.name}/{label}/{rank} {end}/{column}"
        yield Query("ordered", read, value, noun, key, form_of(value), len(table.rows))


def _row_by_rank(table: Table, label: str, column: str, rank: int, end: str) -> Scalar:
    numbers = numbers_of(table, column)
    ranked = sorted(numbers, reverse=end == "highest")
    # A tie at this rank or before it makes "second highest" ambiguous.
    if len(ranked) < rank or len(set(ranked[: rank + 1])) != len(ranked[: rank + 1]):
        raise LookupError(f"no row has the {ordinal(rank)} {end} {column!r} alone")
    return table.rows[numbers.index(ranked[rank - 1])][label]


def _placed(table: Table, label: str, place: int) -> Iterator[Query]:
    index = place - 1 if place > 0 else place

    def read(document: Document) -> Scalar:
        return stated(same_table(document, table).rows[index][label])

    if label not in table.rows[index]:
        return
    value = stated(table.rows[index][label])
    if not answerable(value) or (is_list(table) and len(values_of(table, label)) != len(table.rows)):
        return
    position = ordinal(place) if place > 0 else "last"
    if is_list(table):
        noun = f"the {position} {row_noun(table)}"
    else:
        noun = owned(column_noun(table, label), f"the {position} {row_noun(table)}")
    yield Query(
        "ordered", read, value, noun, f"ordered/{table.name}/{label}/{position}", form_of(value), abs(place)
    )
