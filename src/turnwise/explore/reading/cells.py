"""Cells of an answer: their values, kinds and the names of what they belong to."""

import math
import re
from collections.abc import Iterable
from typing import Any

from turnwise.explore.records import Cell, Kind

MAX_CELL_CHARS = 300
"""A longer text is no value that a question could ask for."""
_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d{0,14})(?:\.\d{1,12})?")
_DATE = re.compile(
    r"\d{4}-\d\d(?:-\d\d)?(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?: ?Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{1,2}[./]\d{1,2}[./]\d{4}"
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+")
_NOTHING = frozenset(("", "-", "—", "–", "n/a", "none", "null"))


def number_in(text: str) -> int | float | None:
    """Return the number that a whole text is; None for `1,200`, `5 kg` and `007`."""
    if not _NUMBER.fullmatch(text):
        return None
    return float(text) if "." in text else int(text)


def typed(text: str) -> Cell:
    """Return the cell that a text format means: a number, a text, or None for a dash and the like."""
    text = text.strip().strip("*`").strip()
    if text.lower() in _NOTHING:
        return None
    number = number_in(text)
    return text if number is None else number


def as_cell(value: Any) -> Cell:
    """Return a JSON value as a cell; None if it cannot be one."""
    match value:
        case str():
            text = value.strip()
            return text if text and len(text) <= MAX_CELL_CHARS and "\n" not in text else None
        case float():
            return value if math.isfinite(value) else None
        case bool() | int():
            return value
    return None


def kind_of(cells: Iterable[Cell]) -> Kind:
    """Return the narrowest kind that fits all cells of a column."""
    present = [cell for cell in cells if cell is not None]
    if present and all(isinstance(cell, bool) for cell in present):
        return "boolean"
    if any(isinstance(cell, str | bool) for cell in present):
        is_date = all(isinstance(cell, str) and _DATE.fullmatch(cell) for cell in present)
        return "date" if is_date else "text"
    return "integer" if all(isinstance(cell, int) for cell in present) else "number"


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of `invoiceItems`, `invoice_items` or `Invoice items` in lower case."""
    return tuple(word.lower() for word in _WORDS.findall(name))


def singular(word: str) -> str:
    """Return the singular of an English plural; other words as they are."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is", "news")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def noun_of(name: str) -> str:
    """Return what one of the things is called that a list is named for: `invoice items` → `invoice item`."""
    *first, last = words_of(name) or ("",)
    return " ".join((*first, singular(last)))


def noun_of_tool(name: str, *, is_list: bool) -> str:
    """Return what a tool's answer is about: `list_open_orders` → `order`, `getPatient` → `patient`."""
    words = [word for word in words_of(name) if not word.isdigit()]
    if len(words) < 2:
        return ""
    plurals = [word for word in words[1:] if singular(word) != word]
    return singular(plurals[-1]) if plurals else "" if is_list else words[-1]
