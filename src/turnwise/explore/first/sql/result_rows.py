"""The rows of a query's result, whichever way a server prints them."""

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.explore.first.document import document_of
from turnwise.explore.first.json_text import MAX_LITERAL_CHARS, NoJson, json_in

Cell = str | int | float | bool | None
Row = tuple[Cell, ...]

_DATE = re.compile(r"datetime\.date\((\d{1,4}), (\d{1,2}), (\d{1,2})\)")
_TIME = re.compile(r"datetime\.datetime\((\d{1,4}), (\d{1,2}), (\d{1,2})((?:, \d{1,6}){0,4})\)")
_DECIMAL = re.compile(r"Decimal\('(-?\d{1,30}(?:\.\d{1,30})?)'\)")
_ROWS_KEYS = ("rows", "data", "results", "result", "records", "values")
_MAX_WRAPPERS = 3


def rows_in(text: str) -> list[Row]:
    """Return the rows that a text holds, in the order of the statement's columns; none if it holds no table.

    [{"n": 80}], [[80]], [(80,)], {"rows": [[80]]} and a table in text all give [(80,)].
    """
    try:
        found = _data_in(text)
    except NoJson:
        return _rows_of_tables(text)
    for _ in range(_MAX_WRAPPERS):
        if not isinstance(found, Mapping):
            break
        key = next((key for key in _ROWS_KEYS if isinstance(found.get(key), list | dict)), None)
        found = [found] if key is None else found[key]
    return [_row(item) for item in found] if isinstance(found, list) else [_row(found)]


def _data_in(text: str) -> Any:
    try:
        return json_in(text)
    except NoJson:
        literal = _python_literal(text.strip())
        if literal is None:
            raise
        return literal


def _python_literal(text: str) -> Any:
    """Read rows as Python prints them, with dates as texts and decimals as numbers; None if it is neither."""
    if text[:1] not in ("[", "(") or len(text) > MAX_LITERAL_CHARS:
        return None
    text = _DATE.sub(lambda found: repr(_iso(found.groups())), text)
    text = _TIME.sub(lambda found: repr(_iso_time(found.groups())), text)
    text = _DECIMAL.sub(r"\1", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in a server's text is not the user's mistake
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _iso(parts: Sequence[str]) -> str:
    return f"{int(parts[0]):04}-{int(parts[1]):02}-{int(parts[2]):02}"


def _iso_time(parts: Sequence[str]) -> str:
    hours, minutes, seconds = ([int(part) for part in parts[3].split(", ")[1:]] + [0, 0, 0])[:3]
    return f"{_iso(parts)} {hours:02}:{minutes:02}:{seconds:02}"


def _row(item: Any) -> Row:
    if isinstance(item, Mapping):
        item = list(item.values())
    values = item if isinstance(item, list | tuple) else [item]
    return tuple(value if isinstance(value, str | int | float | bool) else None for value in values)


def _rows_of_tables(text: str) -> list[Row]:
    tables = document_of(text).tables
    if not tables:
        return []
    return [tuple(row.get(column) for column in tables[0].columns) for row in tables[0].rows]
