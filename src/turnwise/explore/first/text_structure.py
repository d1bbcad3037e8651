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
MAX_RESULT_CHARS = 60
MAX_ITEM_WORDS = 6
"""Words of a line that may be an item of a list without a mark before it."""
MIN_STRUCTURED_SHARE = 0.6
"""Share of lines that must be fields or list items; below it the text is prose, and is read line by line."""

_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,12})?")
_RESULT = re.compile(
    r"(?:\bis|\bare|\bequals|\bwas|=)[ \t]{1,3}(-?\d{1,15}(?:\.\d{1,12})?)(?: [a-zA-Z]{1,12})?[.!]?$"
)
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


def stated_result(sentence: str) -> Cell | None:
    """Return the number that a sentence ends in (`The sum of 2 and 3 is 5.`); None if it states none."""
    stated = _RESULT.search(sentence[-MAX_RESULT_CHARS:].rstrip())
    return cell_of(stated.group(1)) if stated else None


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
    if delimiter == "," and _reads_like_sentences(header, lines):
        return []
    return [_record(header, row) for row in rows]


def _reads_like_sentences(header: Sequence[str], lines: Sequence[str]) -> bool:
    """Whether commas rather stand in prose: two lines with one comma, or words after a comma and a space."""
    has_words = any(" " in name or name.endswith(".") for name in header)
    return (len(lines) < 3 and len(header) < 3) or (", " in lines[0] and has_words)


def _record(columns: Iterable[str], cells: Iterable[str]) -> Record:
    return {name: cell_of(cell) for name, cell in zip(columns, cells, strict=False) if cell.strip()}


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of text: whether it is a list item, and the field or the typed item that it holds."""

    text: str
    indent: int
    is_bullet: bool
    pair: tuple[str, Cell] | None
    entry: Record | None


@dataclass(slots=True)
class _Section:
    """The lines below one heading, as they are read."""

    name: str = ""
    names_list: bool = False
    """Whether the heading ends in a colon, so that short lines below it are a list."""
    lines: list[_Line] = field(default_factory=list)


def _read_lines(lines: Sequence[str]) -> dict[str, Any]:
    """Read a text of several lines section by section."""
    structure: dict[str, Any] = {}
    section = _Section()
    num_structured = position = 0
    lines = _with_pairs(lines)
    while position < len(lines):
        line = lines[position]
        rows, num_lines = _markdown_table(lines, position)
        position += num_lines or 1
        heading = "" if rows else _heading_of(line)
        if rows:
            _put(structure, section.name or "rows", rows)
            num_structured += num_lines
        elif heading:
            num_structured += 1 + _close(structure, section)
            section = _Section(heading, line.rstrip("* ").endswith(":"))
        elif line.strip():
            section.lines.append(_line_of(line))
    num_structured += _close(structure, section)
    if num_structured < MIN_STRUCTURED_SHARE * sum(bool(line.strip()) for line in lines):
        tables = {name: found for name, found in structure.items() if _is_table(found)}
        return {**tables, "lines": [cell_of(line) for line in lines if line.strip()]}
    return structure


def _line_of(line: str) -> _Line:
    bullet, kind = _BULLET.match(line), _KIND.match(line)
    entry: Record | None = None
    if kind:
        item, *details = _WIDE_GAP.split(line[kind.end() :].strip(), maxsplit=1)
        entry = {"kind": kind.group(1), "item": item}
        if details:
            entry["detail"] = cell_of(details[0])
    text = _unmarked(line[bullet.end() :] if bullet else line)
    return _Line(text, len(line) - len(line.lstrip()), bool(bullet), _pair_of(line), entry)


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


def _close(structure: dict[str, Any], section: _Section) -> int:
    """Add the fields and lists of a finished section to the structure; return how many lines they take."""
    items, pairs = _items_of(section.lines), _pairs_of(section.lines)
    entries = [line.entry for line in section.lines if line.entry]
    if not (items or pairs or entries) and section.names_list and _are_short(section.lines):
        items = [cell_of(line.text) for line in section.lines]
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        _put(structure, section.name or "records", _records_of(pairs))
    else:
        for key, value in pairs:
            _put(structure, key, value)
    if entries:
        _put(structure, section.name or "entries", entries)
    if items:
        _put(structure, section.name or "items", items)
    return len(items) + len(pairs) + len(entries)


def _items_of(lines: Sequence[_Line]) -> list[Cell]:
    """Return the items of a list; none if all of them are fields. Lists inside an item are left out."""
    bullets = [line for line in lines if line.is_bullet]
    if all(line.pair for line in bullets):
        return []
    indent = min(line.indent for line in bullets)
    return [cell_of(line.text) for line in bullets if line.indent == indent]


def _pairs_of(lines: Sequence[_Line]) -> list[tuple[str, Cell]]:
    """Return the fields, without items of a list that only look like one (`- Note: call Bob`)."""
    is_list = any(line.is_bullet and not line.pair for line in lines)
    return [line.pair for line in lines if line.pair and not (is_list and line.is_bullet)]


def _are_short(lines: Sequence[_Line]) -> bool:
    return all(len(line.text.split()) <= MAX_ITEM_WORDS for line in lines)


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


def _with_pairs(lines: Sequence[str]) -> list[str]:
    """Return the lines with every Markdown table of two columns without names as lines of `key: value`."""
    found: list[str] = []
    position = 0
    while position < len(lines):
        is_blank = "|" in lines[position] and not any(cell.strip() for cell in _cells_of(lines[position]))
        rows = list(_table_lines(lines, position)) if is_blank else []
        if len(rows) > 2 and all(len(cells) == 2 for cells in rows):
            found += [f"{key.strip()}: {value.strip()}" for key, value in rows[2:]]
        else:
            found += lines[position : position + max(1, len(rows))]
        position += max(1, len(rows))
    return found


def _table_lines(lines: Sequence[str], start: int) -> Iterator[list[str]]:
    for line in lines[start:]:
        if "|" not in line:
            return
        yield _cells_of(line)


def _cells_of(line: str) -> list[str]:
    return line.strip().removeprefix("|").removesuffix("|").split("|")
