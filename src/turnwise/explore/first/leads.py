"""Queries whose answer another call needs: the value that leads from one document to the next."""

from collections.abc import Collection, Iterator

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.columns import (
    called,
    column_noun,
    form_of,
    is_list,
    label_column,
    owned,
    quantity_columns,
    row_noun,
    rows_noun,
    same_table,
    tables_of,
)
from turnwise.explore.first.operations.extreme import winning_row
from turnwise.explore.first.query import Query
from turnwise.explore.first.wording import field_noun, is_plain_name

_NUM_ROWS = 6
"""Rows of one table that chains start from."""
_MIN_ROWS = 2


def leads(document: Document, wanted: Collection[str]) -> Iterator[Query]:
    """Yield queries for values of the wanted fields, by the row's name or by a number that stands out."""
    for table in tables_of(document, min_rows=1):
        for column in table.columns:
            if column in wanted and is_plain_name(column):
                yield from _extremes(table, column)
                yield from _named_rows(table, column)
                yield from _positions(table, column)
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


def _positions(table: Table, column: str) -> Iterator[Query]:
    """Yield the value of the first and the last row, for lists whose rows have no other name."""
    if len(table.rows) < _MIN_ROWS or label_column(table) not in (None, column):
        return
    for place, position in ((0, "first"), (-1, "last")):
        if column not in table.rows[place]:
            continue

        def read(document: Document, place: int = place) -> Scalar:
            return same_table(document, table).rows[place][column]

        rows = rows_noun(table)
        if is_list(table):
            noun = f"the {position} entry" if rows == "entries" else f"the {position} of the {rows}"
        else:
            noun = owned(column_noun(table, column), f"the {position} {row_noun(table)}")
        value = table.rows[place][column]
        key = f"lead/{table.name}/{column}/{position}"
        yield Query("lead", read, value, noun=noun, key=key, form=form_of(value), field=column)


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
