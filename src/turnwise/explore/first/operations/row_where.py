"""A column of the only row with a certain name: "the price of the item whose name is “Bolt”"."""

import random
from collections.abc import Iterator

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.columns import (
    MAX_QUERIES,
    answerable,
    called,
    column_noun,
    form_of,
    interleaved,
    label_column,
    owned,
    picked,
    plain_columns,
    same_table,
    stated,
    tables_of,
    values_of,
)
from turnwise.explore.first.operations.quantities import is_clock
from turnwise.explore.first.query import Form, Query

NUM_TURNS = 2


def row_where(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield cells of rows that their label identifies."""
    sources = [_cells(table, chance) for table in tables_of(document)]
    return interleaved(sources)


def _cells(table: Table, chance: random.Random) -> Iterator[Query]:
    label = label_column(table)
    if label is None:
        return
    columns = [column for column in plain_columns(table) if column != label]
    rows = picked(range(len(table.rows)), MAX_QUERIES, chance)
    starts = [int(chance.random() * max(1, len(columns))) for _ in rows]
    # Another column for every row, so that no column dominates; a second time if there are few rows.
    for turn in range(NUM_TURNS):
        for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
            cells = table.rows[row]
            fit = [column for column in columns if column in cells and answerable(cells[column])]
            fit = [column for column in fit if str(cells[column]) != str(cells[label])]
            fit = [column for column in fit if not _is_usual(table, column, cells[column])]
            if len(fit) > turn:
                yield _query(table, label, cells[label], fit[(number + start + turn) % len(fit)])


def _is_usual(table: Table, column: str, value: Scalar) -> bool:
    """Return whether a value says nothing about its row: most rows have it, or it is a clock."""
    values = values_of(table, column)
    return 2 * values.count(value) > len(values) or is_clock(column, value)


def _query(table: Table, label: str, name: Scalar, column: str) -> Query:
    def read(document: Document) -> Scalar:
        rows = [row for row in same_table(document, table).rows if row.get(label) == name]
        if len(rows) != 1:
            raise LookupError(f"{len(rows)} rows have {label} {name!r}")
        return stated(rows[0][column])

    value = next(row[column] for row in table.rows if row.get(label) == name)
    form = form_of(value)
    noun = column_noun(table, column, is_date=form is Form.DATE)
    return Query(
        "row_where",
        read,
        stated(value),
        noun=owned(noun, called(table, label, name)),
        key=f"row_where/{table.name}/{column}/{label}={name}",
        form=form,
        num_values=2,
    )
