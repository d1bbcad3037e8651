"""What the columns of a table are good for: naming a row, comparing rows, adding up."""

import itertools
import math
import random
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from turnwise.explore.first.document import Document, Scalar, Table
from turnwise.explore.first.operations.answer_text import is_answer_text, plain_text
from turnwise.explore.first.operations.quantities import is_additive_name, is_clock, is_quantity_name
from turnwise.explore.first.query import Form, Query
from turnwise.explore.first.wording.names import (
    condition,
    field_noun,
    fits_in_sentence,
    humanised,
    is_iso_date,
    is_plural,
    is_quoted_noun,
    plural,
    quoted,
    singular,
    words_of,
)
from turnwise.explore.first.wording.sayable import is_failure, is_sayable
from turnwise.explore.first.wording.word_set import word_set

T = TypeVar("T")

MAX_QUERIES = 12
"""The most queries that an operation yields for one document."""
MAX_ROWS = 2_000
"""A larger table is not asked about: it would not fit into a context."""
MAX_TABLES = 6
MAX_COLUMNS = 40
MAX_LABEL_CHARS = 60
MAX_DECIMALS = 6
MAX_NUMBER = 1e15

_LABELS = (
    "name", "title", "full_name", "fullname", "display_name", "label", "item", "symbol", "ticker", "login",
    "username", "user_name", "subject", "headline", "city", "country", "slug", "path", "filename", "file",
    "email", "sku", "code", "key", "id", "number",
)  # fmt: skip
_GENERIC_ROWS = {
    "data": "entry", "rows": "row", "list": "entry", "content": "entry", "output": "entry",
    "value": "entry", "values": "value", "response": "entry", "result": "entry", "item": "item",
    "array": "entry",
}  # fmt: skip
_LARGE = word_set("size area population volume quantity amount length")
_FILE_SIZE = re.compile(r"\d+(?:\.\d+)? ?[kKMGT]?i?B|\d+ bytes")
_NUMERAL = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,18})?")


def tables_of(document: Document, *, min_rows: int = 2) -> Iterator[Table]:
    """Yield the tables that can be asked about: complete, of a sensible size, named by different nouns."""
    if document.is_cut:
        return
    tables = document.tables[:MAX_TABLES]
    nouns = [row_noun(table) for table in tables]
    for table, noun in zip(tables, nouns, strict=True):
        has_size = min_rows <= len(table.rows) <= MAX_ROWS
        is_data = not is_failure(table.name) and not is_text_lines(document, table)
        if has_size and nouns.count(noun) == 1 and is_data:
            yield table


def same_table(document: Document, table: Table) -> Table:
    """Return the table at the same path of another document; LookupError if it is not there or cut."""
    if document.is_cut:
        raise LookupError("the answer was cut")
    return document.table(table.path)


def is_text_lines(document: Document, table: Table) -> bool:
    """Return whether a table holds no more than the lines of a plain text, which `lines` asks about."""
    if table.noun:
        return False
    is_json = document.text.lstrip()[:1] in ("[", "{")
    return is_list(table) and table.path in ((), ("lines",)) and not is_json


def is_list(table: Table) -> bool:
    """Return whether a table is a list of plain values."""
    return table.columns == ("item",)


def row_noun(table: Table) -> str:
    """Return what one row is called: "issue" in a table `issues`, "entry" where the table has no name."""
    if table.noun:
        return table.noun
    if not is_sayable(table.name):
        return "entry"
    generic = _GENERIC_ROWS.get(table.name.lower())
    if generic is not None:
        return generic
    noun = humanised(table.name)
    head, _, last = noun.rpartition(" ")
    if head and last in ("history", "log", "logs", "list", "records"):
        return singular(head)
    if is_plural(noun):
        return singular(noun)
    is_heading = table.name[:1].isupper()  # of a text: a title, not what is below it
    return "entry" if is_heading else f"{noun} entry"


def rows_noun(table: Table) -> str:
    return plural(row_noun(table))


def column_noun(table: Table, column: str, *, is_date: bool = False) -> str:
    """Return what a value of a column is called, without an article."""
    if is_list(table):
        return row_noun(table)
    if column == "item":  # what a line without a name for it lists
        return "name"
    if column == "detail" and all(_FILE_SIZE.fullmatch(str(value)) for value in values_of(table, column)):
        return "size"
    if column.lower() in ("line", "row", "page") and all(
        isinstance(found, int) for found in values_of(table, column)
    ):
        return f"{column.lower()} number"
    is_count = all(isinstance(value, int) and value >= 0 for value in values_of(table, column))
    return field_noun(column, is_date=is_date, is_count=is_count)


def called(table: Table, label: str, name: Scalar) -> str:
    """Return the row of this name: "the customer “Ann”", "the entry whose name is “Ann”"."""
    noun, row = column_noun(table, label), row_noun(table)
    if noun in ("name", "title", row) and row not in ("entry", "row", "item") and isinstance(name, str):
        return f"the {row} {quoted(name)}"
    return f"the {row} {condition(noun, name)}"


def owned(noun: str, owner: str) -> str:
    """Return "the price of the item …"; a quoted name is "for" its owner, and a tag has no tag."""
    if re.match(rf"the (?:\w+ )?{re.escape(noun)}\b", owner):
        return owner
    return f"the {noun} {'for' if is_quoted_noun(noun) else 'of'} {owner}"


def superlative(end: str, noun: str) -> str:
    """Return "highest" or "lowest" as one says it of this noun: "largest" for a size."""
    if noun.rpartition(" ")[2] in _LARGE:
        return {"highest": "largest", "lowest": "smallest"}.get(end, end)
    return end


def over_all(aggregate: str, noun: str, rows: str) -> str:
    """Return "the total price of all items"; "the total of “units sold” over all rows" for a quoted name."""
    if is_quoted_noun(noun) or noun.startswith((aggregate, "total", "average", "mean", "sum")):
        return f"the {aggregate} of {noun.removeprefix('value of ')} over all {rows}"
    return f"the {aggregate} {noun} of all {rows}"


def plain_columns(table: Table) -> list[str]:
    """Return the columns whose names can be said, and whose nouns differ."""
    columns = [
        column for column in table.columns[:MAX_COLUMNS] if is_sayable(column) and not is_failure(column)
    ]
    nouns = [field_noun(column) for column in columns]
    return [column for column, noun in zip(columns, nouns, strict=True) if nouns.count(noun) == 1]


def label_column(table: Table) -> str | None:
    """Return the column that names the rows by unique short texts; a name rather than an id."""
    columns = plain_columns(table)
    by_name = {column.lower(): column for column in reversed(columns)}
    wanted = [by_name[name] for name in _LABELS if name in by_name]
    ends = [column for column in columns if words_of(column)[-1:] in (["name"], ["title"])]
    nouns = [column for column in columns if not is_quoted_noun(field_noun(column))]
    for column in [*wanted, *ends, *nouns]:
        values = values_of(table, column)
        is_named = column in wanted or column in ends
        if len(values) == len(table.rows) and _are_labels(values, may_be_numbers=is_named):
            return column
    return None


def values_of(table: Table, column: str) -> list[Scalar]:
    """Return the values of a column, without the rows that lack it."""
    return [row[column] for row in table.rows if column in row]


def numbers_of(table: Table, column: str) -> list[float]:
    """Return the numbers of a column; LookupError unless every row has a finite one."""
    numbers: list[float] = []
    for row in table.rows:
        value = row.get(column)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise LookupError(f"a row has no number in {column!r}")
        numbers.append(value)
    return numbers


def quantity_columns(table: Table, *, is_additive: bool = False) -> list[str]:
    """Return the columns of numbers that measure something; `is_additive`: whose sum means something."""
    found = []
    for column in plain_columns(table):
        if is_list(table) or not (is_additive_name if is_additive else is_quantity_name)(column):
            continue
        try:
            numbers = numbers_of(table, column)
        except LookupError:
            continue
        is_time = any(is_clock(column, number) for number in numbers)
        # Zeros and ones are flags, not quantities.
        is_varied = len(set(numbers)) > 1 and not set(numbers) <= {0, 1}
        if is_varied and not is_time and not _is_numbering(numbers):
            found.append(column)
    return found


def _is_numbering(numbers: Sequence[float]) -> bool:
    """Return whether the numbers number the rows: 101, 102, 103, 104."""
    is_whole = all(isinstance(number, int) for number in numbers)
    is_unique = len(numbers) > 3 and len(set(numbers)) == len(numbers)
    return is_whole and is_unique and max(numbers) - min(numbers) == len(numbers) - 1


def answerable(value: Scalar) -> bool:
    """Return whether a value is short and simple enough to be an answer; a yes or no is guessed."""
    if isinstance(value, bool):
        return False
    number = _number(value)
    if number is not None:
        is_readable = not _is_long(number) or abs(number) >= 1
        return math.isfinite(number) and abs(number) < MAX_NUMBER and is_readable
    return isinstance(value, str) and is_answer_text(value)


def form_of(value: Scalar) -> Form:
    """Return the form of an answer that a tool states."""
    number = _number(value)
    if number is not None:
        return Form.ROUNDED if _is_long(number) else Form.NUMBER
    return Form.DATE if is_iso_date(str(value)) else Form.TEXT


def stated(value: Scalar) -> Scalar:
    """Return a value as the answer states it: the date of a time, words without markup, decimals rounded."""
    number = _number(value)
    if number is not None:
        if _is_long(number):
            return round(number, 2)
        return round(number, MAX_DECIMALS) if isinstance(value, float) else value
    if not isinstance(value, str):
        return value
    return value[:10] if is_iso_date(value) else plain_text(value)


def _number(value: Scalar) -> int | float | None:
    """Return a number, also one that is written as text; None for other values."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    return float(value) if _NUMERAL.fullmatch(value) else None


def _is_long(number: float) -> bool:
    """Return whether a number has more decimals than anybody copies; 0.1 + 0.2 has one."""
    return not math.isclose(number, round(number, MAX_DECIMALS), rel_tol=1e-12, abs_tol=0.0)


def rounded(number: float) -> int | float:
    """Return a number rounded to two decimals; a whole number without decimals."""
    found = round(number, 2)
    return int(found) if float(found).is_integer() else found


def form_of_computed(number: float) -> Form:
    """Return the form of a number that `rounded` returned."""
    return Form.NUMBER if isinstance(number, int) else Form.ROUNDED


def picked(items: Sequence[T], number: int, chance: random.Random) -> list[T]:
    """Return up to `number` different items, by `random()` alone, which is the same in every Python."""
    left = list(items)
    return [left.pop(int(chance.random() * len(left))) for _ in range(min(number, len(left)))]


def interleaved(sources: Sequence[Iterator[Query]]) -> Iterator[Query]:
    """Yield the first query of every source, then the second ones, up to the limit of an operation."""
    missing = object()
    rounds = itertools.zip_longest(*sources, fillvalue=missing)
    queries = (query for row in rounds for query in row if isinstance(query, Query))
    return itertools.islice(queries, MAX_QUERIES)


def _are_labels(values: Sequence[Scalar], *, may_be_numbers: bool) -> bool:
    texts = [str(value).strip().casefold() for value in values]
    kinds = (str, int) if may_be_numbers else (str,)
    return (
        all(isinstance(value, kinds) and not isinstance(value, bool) for value in values)
        and all(0 < len(text) <= MAX_LABEL_CHARS for text in texts)
        and all(fits_in_sentence(value) and not is_iso_date(str(value)) for value in values)
        and all(is_answer_text(text) for text in texts)
        and len(set(texts)) == len(texts)
    )
