"""An answer of a tool as data: fields by path, tables by column, whatever its text format."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from turnwise.explore.first.json_text import NoJson, beginning_of_json, json_in
from turnwise.explore.first.text_structure import stated_result, structure_of
from turnwise.mcp.calls.results import CUT_MARK

Scalar = str | int | float | bool
Path = tuple[str | int, ...]
"""Where a value is in a document: keys of objects and positions in lists."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a document."""

    path: Path
    value: Scalar

    @property
    def name(self) -> str:
        """The last key of the path: `price` of `("items", 0, "price")`; empty if it has no key."""
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")


@dataclass(frozen=True, slots=True)
class Table:
    """A list of records with the same columns; a list of plain values has one column, `item`."""

    path: Path
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Scalar], ...]
    noun: str = ""
    """What one row is called, where the tool says so and the answer does not."""

    @property
    def name(self) -> str:
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")


@dataclass(frozen=True, slots=True)
class Document:
    """The text of an answer, and the fields and tables that it holds."""

    text: str
    fields: tuple[Field, ...] = ()
    tables: tuple[Table, ...] = ()
    is_cut: bool = False
    """Whether part of the answer is missing: the text was cut to the result budget, or a table has more rows
    than are kept."""

    def field(self, path: Path) -> Scalar:
        """Return the value at a path; LookupError if there is none."""
        for field in self.fields:
            if field.path == path:
                return field.value
        raise LookupError(f"no field at {path!r}")

    def table(self, path: Path) -> Table:
        """Return the table at a path; LookupError if there is none."""
        for table in self.tables:
            if table.path == path:
                return table
        raise LookupError(f"no table at {path!r}")


MAX_CHARS = 64_000
"""A longer text is read up to here, and counts as cut."""
MAX_DEPTH = 6
MAX_FIELDS = 400
MAX_TABLES = 8
MAX_ROWS = 200
MAX_COLUMNS = 40
MAX_KEY_CHARS = 120

ITEM = "item"
"""The only column of a list of plain values."""

_BAR = {
    "o": "opening price",
    "h": "highest price",
    "l": "lowest price",
    "c": "closing price",
    "v": "volume",
    "vw": "average price",
    "n": "number of trades",
    "t": "timestamp",
}
"""What servers of market data mean by their letters. No other convention of this kind is as common."""
_SHORT_CUTS = ("[cut]", "…")


def document_of(text: str) -> Document:
    """Read an answer's text: JSON, Markdown or CSV tables, `key: value` lines, or plain lines."""
    head, is_cut = _readable(text)
    try:
        data = beginning_of_json(head) if is_cut else json_in(head)
    except NoJson:
        # The last line of a cut text is incomplete.
        data = structure_of(head.rpartition("\n")[0] if is_cut else head) if head.strip() else {}
    reader = _Reader()
    reader.read(data)
    result = stated_result(data) if isinstance(data, str) else None
    if result is not None:
        reader.fields.append(Field(("result",), result))
    return Document(text, tuple(reader.fields), tuple(reader.tables), is_cut or reader.has_left_out_rows)


def _readable(text: str) -> tuple[str, bool]:
    """Return the part of a text that can be read, and whether more is missing."""
    mark = CUT_MARK.search(text)
    if mark:
        return text[: min(mark.start(), MAX_CHARS)], True
    if text.strip() in _SHORT_CUTS:
        return "", True
    return text[:MAX_CHARS], len(text) > MAX_CHARS


class _Reader:
    """Collects the fields and tables of parsed data, level by level, within the bounds."""

    def __init__(self) -> None:
        self.fields: list[Field] = []
        self.tables: list[Table] = []
        self.has_left_out_rows = False
        self._waiting: deque[tuple[Path, Any]] = deque()

    def read(self, data: Any) -> None:
        self._waiting.append(((), data))
        while self._waiting:
            path, node = self._waiting.popleft()
            if isinstance(node, dict):
                self._wait_for(path, _named(node).items())
            elif isinstance(node, list):
                self._read_list(path, node)
            else:
                self._add_field(path, node)

    def _wait_for(self, path: Path, items: Iterable[tuple[str | int, Any]]) -> None:
        if len(path) < MAX_DEPTH:
            self._waiting.extend(((*path, key), item) for key, item in items if _is_name(key))

    def _add_field(self, path: Path, value: Any) -> None:
        if len(self.fields) < MAX_FIELDS and _is_scalar(value) and value != "":
            self.fields.append(Field(path, value))

    def _read_list(self, path: Path, items: list[Any]) -> None:
        if items and all(isinstance(item, dict) for item in items):
            items = [_named(item) for item in items]
            rows = [dict(_flat(item)) for item in items[:MAX_ROWS]]
            self._add_table(path, rows, len(items))
            if len(rows) == 1:
                for column, value in rows[0].items():
                    self._add_field((*path, 0, column), value)
            for number, item in enumerate(items[:MAX_ROWS]):
                lists = [(key, inner) for key, inner in item.items() if isinstance(inner, list)]
                if lists:
                    self._wait_for((*path, number), lists)
        elif items and all(_is_scalar(item) for item in items):
            self._add_table(path, [{ITEM: item} for item in items[:MAX_ROWS]], len(items))
        else:
            self._wait_for(path, enumerate(items))

    def _add_table(self, path: Path, rows: Sequence[Mapping[str, Scalar]], num_rows: int) -> None:
        columns = tuple(dict.fromkeys(column for row in rows for column in row))[:MAX_COLUMNS]
        if columns and len(self.tables) < MAX_TABLES:
            kept = frozenset(columns)
            cells = ({name: cell for name, cell in row.items() if name in kept} for row in rows)
            self.tables.append(Table(path, columns, tuple(cells)))
            self.has_left_out_rows |= num_rows > len(rows)


def _named(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a bar of a price chart with names for its letters; other records as they are."""
    if not record.keys() >= {"o", "h", "l", "c"}:
        return record
    return {_BAR.get(key, key): value for key, value in record.items()}


def _flat(record: Mapping[str, Any]) -> Iterator[tuple[str, Scalar]]:
    """Yield the cells of a record; those of a record inside it are named `owner.login`."""
    for key, value in record.items():
        if not _is_name(key):
            continue
        if isinstance(value, dict):
            for name, cell in value.items():
                if _is_name(name) and _is_scalar(cell) and cell != "":
                    yield f"{key}.{name}", cell
        elif _is_scalar(value) and value != "":
            yield key, value


def _is_name(key: str | int) -> bool:
    """Whether a key can be named in a question."""
    return isinstance(key, int) or (len(key) <= MAX_KEY_CHARS and key.isprintable() and bool(key.strip()))


def _is_scalar(value: Any) -> TypeGuard[Scalar]:
    """Whether a value is one that can be asked for: no null, no infinity, no half of a surrogate pair."""
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value))
