"""Queries whose answer another call needs: the value that leads from one document to the next."""

from collections.abc import Collection, Iterator

from turnwise.explore.document import Document, Scalar, Table
from turnwise.explore.operations.columns import (
    called,
    column_noun,
    form_of,
    label_column,
    owned,
    quantity_columns,
    row_noun,
    same_table,
    tables_of,
)
from turnwise.explore.operations.extreme import winning_row
from turnwise.explore.query import Query
from turnwise.explore.wording import field_noun, is_plain_name

_NUM_ROWS = 6
"""Rows of one table that chains start from."""


def leads(document: Document, wanted: Collection[str]) -> Iterator[Query]:
    """Yield queries for values of the wanted fields, by the row's name or by a number that stands out."""
    for table in tables_of(document, min_rows=1):
        for column in table.columns:
            if column in wanted and is_plain_name(column):
                yield from _extremes(table, column)
                yield from _named_rows(table, column)
    for field in document.fields:
        is_plain = all(isinstance(part, str) for part in field.path)
        if field.name in wanted and is_plain and is_plain_name(field.name):
            yield Query(
                "lead",
                lambda other, path=field.path: other.field(path),  # type: ignore[misc]  # mypy: no types in lambdas
                field.value,
                noun=f"the {field_noun(field.name)}",
                key=f"lead/{'/'.join(map(str, field.path))}",
                form=form_of(field.value),
                field=field.name,
            )


def _named_rows(table: Table, column: str) -> Iterator[Query]:
    label = label_column(table)
    if label is None or label == column:
        return
    for row in table.rows[:_NUM_ROWS]:
        if column not in row or label not in row:
            continue

        def read(document: Document, name: Scalar = row[label]) -> Scalar:
            rows = [found for found in same_table(document, table).rows if found.get(label) == name]
            if len(rows) != 1:
                raise LookupError(f"{len(rows)} rows have {label} {name!r}")
            return rows[0][column]

        owner = called(table, label, row[label])
        yield Query(
            "lead",
            read,
            row[column],
            noun=owned(column_noun(table, column), owner),
            key=f"lead/{table.name}/{column}/{label}={row[label]}",
            form=form_of(row[column]),
            field=column,
        )


def _extremes(table: Table, column: str) -> Iterator[Query]:
    for quantity in quantity_columns(table):
        for end in ("highest", "lowest"):
            if quantity == column:
                continue
            try:
                value = table.rows[winning_row(table, quantity, end)][column]
            except LookupError:
                continue

            def read(document: Document, quantity: str = quantity, end: str = end) -> Scalar:
                other = same_table(document, table)
                return other.rows[winning_row(other, quantity, end)][column]

            owner = f"the {row_noun(table)} with the {end} {column_noun(table, quantity)}"
            yield Query(
                "lead",
                read,
                value,
                noun=owned(column_noun(table, column), owner),
                key=f"lead/{table.name}/{column}/{end} {quantity}",
                form=form_of(value),
                field=column,
            )
