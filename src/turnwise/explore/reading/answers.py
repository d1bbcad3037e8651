"""An answer's text as relations, whatever its format."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from turnwise.explore.reading.cells import kind_of, noun_of_tool
from turnwise.explore.reading.lines import data_in
from turnwise.explore.reading.trees import MAX_PARTS, Part, Text, named_for, parts_of
from turnwise.explore.records import Call, Column, Relation
from turnwise.mcp.calls.results import CUT_MARK

MAX_CHARS = 64_000
_MAX_TEXTS = 12
_NAMELESS = frozenset(("row", "item", "entry", "line", "result", "data", "value"))
"""Names that lists have in any answer; the tool says more."""
_START = re.compile(r"(?m)^[ \t]*([\[{])|[:.!] ([\[{])")
_DECODER = json.JSONDecoder()


def read(call: Call, text: str) -> tuple[Relation, ...]:
    """Return the relations of an answer, outer ones first."""
    pending: list[tuple[tuple[str, ...], Any]] = [((), parsed(text[:MAX_CHARS]))]
    found: list[Relation] = []
    num_texts = 0
    while pending and len(found) < MAX_PARTS:
        path, data = pending.pop(0)
        for part in parts_of(data, path):
            if isinstance(part, Part):
                found.append(_relation(call, part))
            elif num_texts < _MAX_TEXTS:
                num_texts += 1
                pending.append((part.path, _of_text(part)))
    return tuple(relation for relation in found if relation.rows)


def is_cut(text: str) -> bool:
    """Return whether part of an answer is missing."""
    return len(text) > MAX_CHARS or CUT_MARK.search(text) is not None


def parsed(text: str) -> Any:
    """Return the data of a text: JSON, JSON lines, a Python literal, or what its lines say."""
    bare = text.strip()
    values = list(_json_in(bare))
    if values:
        return values[0] if len(values) == 1 else values
    if bare[:1] in "[{(" and bare:
        try:
            return _plain(ast.literal_eval(bare))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            pass
    return data_in(bare)


def _json_in(text: str) -> Iterator[Any]:
    """Yield the JSON objects and lists that stand in a text, if little else does."""
    if not text:
        return
    found, end, num_other = [], 0, 0
    while match := _START.search(text, end):
        start = match.start(1) if match[1] else match.start(2)
        try:
            value, stop = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            stop, value = match.end(), None
        if isinstance(value, dict | list) and value:
            found.append(value)
            num_other += len(text[end:start].strip())
            end = stop
        else:
            num_other += len(text[end:stop].strip())
            end = stop
        if num_other > len(text) / 2:
            return
    if num_other + len(text[end:].strip()) <= len(text) / 2:
        yield from found


def _plain(value: Any) -> Any:
    """Return a Python literal as JSON would have it."""
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _of_text(part: Text) -> Any:
    data = parsed(part.text)
    return data if not isinstance(data, str) or data != part.text else []


def _relation(call: Call, part: Part) -> Relation:
    names = list(dict.fromkeys(name for record in part.records for name in record))
    rows = tuple(tuple(record.get(name) for name in names) for record in part.records)
    columns = []
    for place, name in enumerate(names):
        cells = [row[place] for row in rows]
        kind = kind_of(cells)
        is_key = len(rows) > 1 and None not in cells and len(set(cells)) == len(cells)
        columns.append(Column(name, kind, is_key and kind in ("integer", "text")))
    noun = part.noun if part.noun and part.noun not in _NAMELESS else named_for(part.path, "")
    if not noun or noun in _NAMELESS:
        noun = noun_of_tool(call.tool, is_list=part.is_list) or noun
    return Relation(call, part.path, noun, tuple(columns), rows, part.is_list)
