"""Rows in nested data: lists of objects, objects by key, lists of lists."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.explore.reading.cells import as_cell, noun_of, singular, typed
from turnwise.explore.records import Cell, Path

MAX_ROWS = 400
MAX_PARTS = 24
MAX_DEPTH = 8
_MAX_COLUMNS = 40
_MAX_NAME_CHARS = 80
_MIN_SHARED = 0.6
"""Share of fields that values by key must have in common to be rows of one list."""
_MAX_TEXT_CHARS = 64_000
Record = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows before their columns are typed."""

    path: Path
    noun: str
    records: tuple[Record, ...]
    is_list: bool


@dataclass(frozen=True, slots=True)
class Text:
    """A text inside data that must be read by itself."""

    path: Path
    text: str


def parts_of(data: Any, path: Path = (), noun: str = "") -> Iterator[Part | Text]:
    """Yield the rows of data, outer lists first; texts of several lines are yielded unread."""
    data = _parsed(data)
    if len(path) > MAX_DEPTH:
        return
    if isinstance(data, Mapping):
        yield from _object(data, path, noun)
    elif isinstance(data, list):
        yield from _list(data, path, noun)
    elif isinstance(data, str) and ("\n" in data or as_cell(data) is None):
        if data.strip():
            yield Text(path, data)
    elif (cell := as_cell(data)) is not None:
        yield Part(path, noun, ({noun or "value": cell},), is_list=False)


def _object(data: Mapping[str, Any], path: Path, noun: str) -> Iterator[Part | Text]:
    data = {str(name): _parsed(value) for name, value in data.items() if len(str(name)) <= _MAX_NAME_CHARS}
    if is_by_key(data):
        inside = {field for value in data.values() for field in value}
        key = next(one for one in (noun or "name", "key", "its key") if one not in inside)
        yield from _list([{key: typed(name), **value} for name, value in data.items()], (*path, "*"), noun)
        return
    record, inner = _flat(data)
    if record:
        yield Part(path, noun, (record,), is_list=False)
    for name, value in inner:
        inner_noun = noun_of(name.rpartition(".")[2])
        yield from parts_of(value, (*path, name), inner_noun)


def is_by_key(data: Mapping[str, Any]) -> bool:
    """Return whether an object is a list of things by their names: objects with the same fields."""
    values = list(data.values())
    if len(values) < 2 or not all(isinstance(value, Mapping) and value for value in values):
        return False
    shared = set.intersection(*(set(value) for value in values))
    return len(shared) >= _MIN_SHARED * max(len(value) for value in values)


def _list(items: Sequence[Any], path: Path, noun: str) -> Iterator[Part | Text]:
    items = [_parsed(item) for item in items[:MAX_ROWS]]
    if items and all(isinstance(item, list) for item in items):
        items = list(_table(items))
    if items and all(isinstance(item, Mapping) for item in items):
        yield from _objects(items, path, noun)
    elif cells := [cell for item in items if (cell := as_cell(item)) is not None]:
        yield Part(path, noun, tuple({noun or "item": cell} for cell in cells), is_list=True)
    for number, item in enumerate(items):
        if isinstance(item, str) and "\n" in item and len(items) <= MAX_PARTS:
            yield Text((*path, str(number)), item)


def _objects(items: Sequence[Mapping[str, Any]], path: Path, noun: str) -> Iterator[Part | Text]:
    flat = [_flat({str(name): value for name, value in item.items()}) for item in items]
    records = [record for record, _ in flat]
    if any(records):
        yield Part(path, noun, tuple(record for record in records if record), is_list=True)
    key = _identity(records)
    inner: dict[str, list[Any]] = {}
    for record, parts in flat:
        for name, value in parts:
            context = {f"{noun or 'parent'}.{key}": record[key]} if key in record else {}
            inner.setdefault(name, []).extend(_with_context(value, context, noun_of(name)))
    for name, values in list(inner.items())[:MAX_PARTS]:
        if any(isinstance(value, Mapping) for value in values):
            yield from _list(values, (*path, "*", name), noun_of(name))


def _with_context(value: Any, context: Record, noun: str) -> Iterator[Any]:
    """Yield the items of a list inside a row, each with what identifies the row."""
    if isinstance(value, Mapping) and is_by_key(value):
        value = [{noun or "name": typed(name), **fields} for name, fields in value.items()]
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, Mapping):
            yield {**context, **item}
        elif (cell := as_cell(item)) is not None:
            yield {**context, noun or "item": cell}


def _identity(records: Sequence[Record]) -> str:
    """Return the first column with a different value in every row; empty if there is none."""
    for name in records[0] if records else ():
        cells = [record.get(name) for record in records]
        is_name = all(isinstance(cell, str | int) and not isinstance(cell, bool) for cell in cells)
        if is_name and len(set(cells)) == len(cells):
            return name
    return ""


def _flat(data: Mapping[str, Any], depth: int = 0) -> tuple[Record, list[tuple[str, Any]]]:
    """Return the cells of an object, those of objects inside named `owner.login`, and what is no cell."""
    record: Record = {}
    inner: list[tuple[str, Any]] = []
    for name, given in data.items():
        value = _parsed(given)
        if isinstance(value, Mapping) and not is_by_key(value) and depth < 3:
            cells, parts = _flat({f"{name}.{key}": item for key, item in value.items()}, depth + 1)
            record |= cells
            inner += parts
        elif (cell := as_cell(value)) is not None and len(record) < _MAX_COLUMNS:
            record[name] = cell
        elif _is_inner(value):
            inner.append((name, value))
    return record, inner


def _is_inner(value: Any) -> bool:
    """Return whether a value has rows or lines that are read by themselves."""
    if isinstance(value, str):
        return "\n" in value and len(value) <= _MAX_TEXT_CHARS
    return isinstance(value, Mapping | list) and bool(value)


def _table(lists: Sequence[Sequence[Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield rows of a list of lists; its first list is the header if it has only different texts."""
    first = lists[0]
    has_header = len(lists) > 1 and bool(first) and len(set(map(str, first))) == len(first)
    has_header = has_header and all(isinstance(name, str) and name.strip() for name in first)
    names = list(first) if has_header else [f"column {place + 1}" for place in range(max(map(len, lists)))]
    for row in lists[has_header:]:
        yield dict(zip(map(str, names), row, strict=False))


def _parsed(value: Any) -> Any:
    """Return the data of a JSON text inside data; other values as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def named_for(path: Path, fallback: str) -> str:
    """Return the singular of the last name in a path that is not data."""
    name = next((part for part in reversed(path) if part != "*" and not part.isdigit()), fallback)
    return singular(noun_of(name))
