"""How many rows there are: "the number of issues whose state is “open”"."""

import random
from collections import Counter
from collections.abc import Iterator

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.columns import (
    column_noun,
    interleaved,
    is_list,
    picked,
    plain_columns,
    rows_noun,
    same_table,
    tables_of,
    values_of,
)
from turnwise.explore.first.operations.quantities import is_quantity_name
from turnwise.explore.first.query import Form, Measure, Query
from turnwise.explore.first.wording.names import (
    condition,
    fits_in_sentence,
    humanised,
    is_quoted_noun,
    plural,
    words_of,
)

MAX_GROUPS = 12
"""A column with more different values does not sort its rows into groups."""
MIN_KINDS = 3


def count(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield the rows with a certain value, then all rows, then the different values of a column."""
    return interleaved([_counts(table, chance) for table in tables_of(document)])


def _counts(table: Table, chance: random.Random) -> Iterator[Query]:
    columns = (
        [] if is_list(table) else [column for column in plain_columns(table) if _is_grouping(table, column)]
    )
    for column in picked(columns, len(columns), chance)[:4]:
        values = list(dict.fromkeys(values_of(table, column)))
        for value in picked(values, 2, chance):
            yield _matching(table, column, value)
    yield _all(table)
    for column in columns[:3]:
        if _has_kinds(table, column):
            yield _different(table, column)


def _is_grouping(table: Table, column: str) -> bool:
    values = values_of(table, column)
    groups = Counter(values)
    return (
        1 < len(groups) <= MAX_GROUPS
        and len(groups) < len(values) == len(table.rows)
        and not any(isinstance(value, float) for value in values)
        and all(fits_in_sentence(value) and str(value).strip() == str(value) != "" for value in groups)
        and (is_quantity_name(column) or all(isinstance(value, str) for value in groups))
    )


def _has_kinds(table: Table, column: str) -> bool:
    """Return whether the values of a column are kinds of something, so that one asks how many there are."""
    values = values_of(table, column)
    is_text = all(isinstance(value, str) for value in values)
    return is_text and len(set(values)) >= MIN_KINDS and not is_quoted_noun(column_noun(table, column))


def _matching(table: Table, column: str, value: Scalar) -> Query:
    def read(document: Document) -> Scalar:
        values = values_of(same_table(document, table), column)
        return sum(1 for other in values if other == value and type(other) is type(value))

    noun = f"the number of {rows_noun(table)} {_condition(table, column, value)}"
    key = f"count/{table.name}/{column}={value}"
    number = sum(1 for other in values_of(table, column) if other == value and type(other) is type(value))
    return Query("count", read, number, noun, key, Form.NUMBER, len(table.rows))


def _condition(table: Table, column: str, value: Scalar) -> str:
    if isinstance(value, bool):
        if words_of(column)[0] == "is" and _is_adjective(words_of(column)[-1]):
            return f"that are {'' if value else 'not '}{humanised(column)}"
        return f"for which “{' '.join(words_of(column))}” is {'true' if value else 'false'}"
    return condition(column_noun(table, column), value)


def _is_adjective(word: str) -> bool:
    endings = ("ed", "able", "ible", "al", "ive", "ful", "ous", "ing")
    return word.endswith(endings) or word in (
        "open",
        "public",
        "private",
        "empty",
        "valid",
        "new",
        "free",
        "online",
    )


def _all(table: Table) -> Query:
    def read(document: Document) -> Scalar:
        return len(same_table(document, table).rows)

    noun = f"the number of {rows_noun(table)}"
    return Query(
        "count",
        read,
        len(table.rows),
        noun,
        f"count/{table.name}",
        Form.NUMBER,
        len(table.rows),
        measure=Measure.COUNT,
    )


def _different(table: Table, column: str) -> Query:
    def read(document: Document) -> Scalar:
        return len(set(values_of(same_table(document, table), column)))

    number = len(set(values_of(table, column)))
    noun = column_noun(table, column)
    return Query(
        "count",
        read,
        number,
        noun=f"the number of different {plural(noun)} among the {rows_noun(table)}",
        key=f"count/{table.name}/different/{column}",
        form=Form.NUMBER,
        num_values=len(table.rows),
    )
