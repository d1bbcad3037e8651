"""Read a text that is not JSON as data: tables, `key: value` lines, lists, or plain lines."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_LINES = 4_000
MAX_KEY_CHARS = 48
MAX_KEY_WORDS = 5
MAX_COLUMNS = 40
MIN_STRUCTURED_SHARE = 0.6
"""Share of lines that must be fields or list items; below it the text is prose, and is read line by line."""

_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,12})?")
_SEPARATOR = re.compile(r"[\s|:+=-]*--[\s|:+=-]*")
_BULLET = re.compile(r"\s{0,40}(?:[-*•‣–]|\d{1,4}[.)])\s+(?=\S)")
_KIND = re.compile(r"\s{0,40}\[([A-Za-z][A-Za-z _-]{0,20})\]\s+(?=\S)")
_WIDE_GAP = re.compile(r"\s{2,}|\t")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?=\S)")
_NOT_IN_KEYS = frozenset("\"'{}[]<>;=|\\`")
_DELIMITERS = ("\t", ";", ",")
_HEADER_CELL = re.compile(r"[^\W\d][\w .%()/#-]{0,40}")

Cell = str | int | float
Record = dict[str, Cell]


def cell_of(text: str) -> Cell:
    """Return the number that a whole text is, else the text: `12`, but not `1,200`, `5 kg`, `3%` or `007`."""
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def structure_of(text: str) -> Any:
    """Return the text as an object of fields and lists, or as one value if it has one line."""
    lines = [line.rstrip() for line in text.split("\n", MAX_LINES)[:MAX_LINES]]
    filled = [line for line in lines if line.strip()]
    if len(filled) == 1 and not _pair_of(filled[0]) and not _KIND.match(filled[0]):
        return cell_of(filled[0])
    table = _delimited_table(filled) or _delimited_table(filled[1:])
    if table:
        return {"rows": table}
    return _read_lines(lines)


def _delimited_table(lines: Sequence[str]) -> list[Record]:
    """Read lines of comma, semicolon or tab separated values under a header; empty if they are none."""
    for delimiter in _DELIMITERS:
        if len(lines) >= 2 and delimiter in lines[0] and delimiter in lines[1]:
            table = _separated_by(delimiter, lines)
            if table:
                return table
    return []


def _separated_by(delimiter: str, lines: Sequence[str]) -> list[Record]:
    try:
        header, *rows = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    except csv.Error:
        return []
    if len(header) > MAX_COLUMNS or len(set(header)) != len(header):
        return []
    if not all(_HEADER_CELL.fullmatch(name) for name in header) or any(
        len(row) != len(header) for row in rows
    ):
        return []
    # Two lines with one comma are a sentence more often than a table.
    if delimiter == "," and len(lines) < 3 and len(header) < 3:
        return []
    return [_record(header, row) for row in rows]


def _record(columns: Iterable[str], cells: Iterable[str]) -> Record:
    return {name: cell_of(cell) for name, cell in zip(columns, cells, strict=False) if cell.strip()}


@dataclass(slots=True)
class _Section:
    """The lines below one heading, as they are read."""

    name: str = ""
    pairs: list[tuple[str, Cell]] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)


def _read_lines(lines: Sequence[str]) -> dict[str, Any]:
    """Read a text of several lines section by section."""
    structure: dict[str, Any] = {}
    section = _Section()
    num_structured = num_filled = 0
    position = 0
    while position < len(lines):
        line = lines[position]
        rows, num_lines = _markdown_table(lines, position)
        if rows:
            _put(structure, section.name or "rows", rows)
        num_filled += num_lines if rows else bool(line.strip())
        num_structured += num_lines if rows else _read_line(line, section)
        position += num_lines if rows else 1
        heading = "" if rows else _heading_of(line)
        if heading:
            num_structured += 1
            _close(structure, section)
            section = _Section(heading)
    _close(structure, section)
    if num_structured < MIN_STRUCTURED_SHARE * num_filled:
        tables = {name: found for name, found in structure.items() if _is_table(found)}
        return {**tables, "lines": [cell_of(line) for line in lines if line.strip()]}
    return structure


def _read_line(line: str, section: _Section) -> bool:
    """Add a line to its section; False if it is neither a field nor a list item."""
    pair = _pair_of(line)
    if pair:
        section.pairs.append(pair)
        return True
    kind = _KIND.match(line)
    if kind:
        item, *details = _WIDE_GAP.split(line[kind.end() :].strip(), maxsplit=1)
        record = {"kind": kind.group(1), "item": item}
        section.items.append({**record, **({"detail": cell_of(details[0])} if details else {})})
        return True
    bullet = _BULLET.match(line)
    if bullet:
        section.items.append(cell_of(_unmarked(line[bullet.end() :])))
    return bool(bullet)


def _pair_of(line: str) -> tuple[str, Cell] | None:
    """Return the key and the value of `key: value`, `- key: value` or `**Key:** value`."""
    bullet = _BULLET.match(line)
    bare = line[bullet.end() :] if bullet else line.strip()
    key, colon, value = bare[: MAX_KEY_CHARS + 8].partition(":")
    if not colon:
        return None
    value = bare[len(key) + 1 :]
    is_spaced = value[:1] in (" ", "\t", "*")
    key, value = _unmarked(key), _unmarked(value)
    if not is_spaced or not value or not _is_key(key):
        return None
    return key, cell_of(value)


def _is_key(text: str) -> bool:
    is_short = 0 < len(text) <= MAX_KEY_CHARS and len(text.split()) <= MAX_KEY_WORDS
    return is_short and text[0].isalpha() and not _NOT_IN_KEYS.intersection(text) and ". " not in text


def _unmarked(text: str) -> str:
    """Return a text without the marks of bold, italic and code around it."""
    return text.strip().strip("*`").strip().removeprefix("**").strip()


def _heading_of(line: str) -> str:
    """Return the name that a heading (`## Users`, `Users:`) gives to the lines below it, else nothing."""
    mark = _HEADING.match(line)
    name = _unmarked(line[mark.end() :] if mark else line).rstrip(":").strip(" *")
    is_heading = mark or _unmarked(line).rstrip("* ").endswith(":")
    return name if is_heading and _is_key(name) else ""


def _close(structure: dict[str, Any], section: _Section) -> None:
    """Add the fields and lists of a finished section to the structure."""
    keys = [key for key, _ in section.pairs]
    if len(set(keys)) < len(keys):
        _put(structure, section.name or "records", _records_of(section.pairs))
    else:
        for key, value in section.pairs:
            _put(structure, key, value)
    if section.items:
        is_typed = all(isinstance(item, dict) for item in section.items)
        is_plain = not any(isinstance(item, dict) for item in section.items)
        if is_typed or is_plain:
            _put(structure, section.name or ("entries" if is_typed else "items"), section.items)


def _records_of(pairs: Sequence[tuple[str, Cell]]) -> list[Record]:
    """Split fields into records: one begins where the first key is seen again."""
    records: list[Record] = []
    for key, value in pairs:
        if not records or key == pairs[0][0] or key in records[-1]:
            records.append({})
        records[-1][key] = value
    return records


def _put(structure: dict[str, Any], name: str, value: Any) -> None:
    """Add a value under a name that is still free: `rows`, then `rows 2`."""
    if name in structure:
        number = 2 + sum(other.startswith(f"{name} ") for other in structure)
        name = f"{name} {number}"
    structure[name] = value


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _markdown_table(lines: Sequence[str], start: int) -> tuple[list[Record], int]:
    """Return the rows of a table that begins at a line, and its number of lines; no rows if there is none."""
    is_table = (
        start + 2 < len(lines) and "|" in lines[start] and _SEPARATOR.fullmatch(lines[start + 1][:2_000])
    )
    if not is_table:
        return [], 0
    columns = [_unmarked(cell) for cell in _cells_of(lines[start])][:MAX_COLUMNS]
    if len(set(columns)) != len(columns):
        return [], 0
    rows = [_record(columns, map(_unmarked, cells)) for cells in _table_lines(lines, start + 2)]
    return rows, 2 + len(rows)


def _table_lines(lines: Sequence[str], start: int) -> Iterator[list[str]]:
    for line in lines[start:]:
        if "|" not in line:
            return
        yield _cells_of(line)


def _cells_of(line: str) -> list[str]:
    return line.strip().removeprefix("|").removesuffix("|").split("|")
