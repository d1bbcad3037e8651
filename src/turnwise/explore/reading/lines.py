"""Lines of text as nested data: headings, lists, `key: value` lines, tables."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnwise.explore.reading.cells import noun_of, typed
from turnwise.explore.reading.columns import split_lines
from turnwise.explore.reading.sentences import stated

MAX_LINES = 2_000
_HEADING = re.compile(r"(#{1,6})\s+(\S.*)")
_BULLET = re.compile(r"(?:[-*•‣–+▪◦]|\d{1,4}[.)]|\[[ xX]?\])\s+(?=\S)")
_PAIR = re.compile(r"\**([^\W\d_][^:=\n|\[\]{}<>\"]{0,47}?)\**\s*(?::(?=\s|\**\s|$)|\s=\s)\**\s*(.*)")
_INLINE = re.compile(r"\s*(?:[;,|]|\s[-–—·•])\s+(?=\**[^\W\d_][\w -]{0,40}\**\s?[:=])")
"""Between the pairs of a line that is a record: `id: 7; name: Kim`."""
_RULE = re.compile(r"[\s|:+=─━-]*[-=─━]{2,}[\s|:+=─━-]*")
_MAX_KEY_WORDS = 5
_DELIMITERS = ("\t", ";", ",")
_HEADER = re.compile(r"[^\W\d][\w .%()/#-]{0,40}")


@dataclass(slots=True)
class _Node:
    """A line with the lines that belong to it."""

    text: str
    indent: int
    heading: int = 0
    is_bullet: bool = False
    is_after_blank: bool = False
    children: list["_Node"] = field(default_factory=list)

    @property
    def record(self) -> dict[str, Any]:
        """The fields of a line of several pairs; empty if it is none. Words before them are its title."""
        parts = _INLINE.split(self.text)
        pairs = [_PAIR.fullmatch(part.strip("()[] ")) for part in parts]
        title = {} if pairs[0] else {"title": typed(parts[0])}
        found = {pair[1].strip(): typed(pair[2]) for pair in pairs if pair}
        is_record = len(found) >= 2 or (bool(title) and bool(found))
        return {**title, **found} if is_record and all(pairs[1:]) and not self.heading else {}

    @property
    def pair(self) -> tuple[str, str] | None:
        """The key and the value of `key: value`."""
        found = None if self.heading or self.record else _PAIR.fullmatch(self.text)
        if found is None or len(found[1].split()) > _MAX_KEY_WORDS:
            return None
        return found[1].strip(), found[2].strip()


def data_in(text: str) -> Any:
    """Return the text as nested lists and objects; text that has no structure as a list of lines."""
    if fields := stated(text):
        return fields
    lines = [line.rstrip() for line in text.expandtabs(4).split("\n")[:MAX_LINES]]
    lines = [line for line in lines if not line.lstrip().startswith("```")]
    filled = [line for line in text.split("\n")[:MAX_LINES] if line.strip()]
    for start in (0, 1):
        if table := _delimited(filled[start:]):
            return {"rows": table}
    data = _data_of(_nested(_nodes(lines)))
    return data if data is not None else []


def _delimited(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Read a header and lines of values between commas, semicolons or tabs; empty if they are none."""
    for delimiter in _DELIMITERS:
        if len(lines) < 2 or any(delimiter not in line for line in lines[:2]):
            continue
        header, *rows = csv.reader(
            [line.strip() for line in lines], delimiter=delimiter, skipinitialspace=True
        )
        is_header = len(set(header)) == len(header) and all(
            _HEADER.fullmatch(name.strip()) for name in header
        )
        if not is_header or any(len(row) != len(header) for row in rows):
            continue
        if delimiter == "," and (", " in lines[0] or (len(rows) < 2 and len(header) < 3)):
            continue  # commas in sentences
        return [{name.strip(): typed(cell) for name, cell in zip(header, row, strict=True)} for row in rows]
    return []


def _nodes(lines: Sequence[str]) -> Iterator[_Node | list[Any]]:
    """Yield lines as nodes and tables as lists of rows."""
    position, is_after_blank = 0, False
    while position < len(lines):
        line = lines[position]
        rows, num_lines = _ruled_table(lines, position)
        position += num_lines or 1
        if num_lines:
            yield rows
        elif not line.strip():
            is_after_blank = True
        elif not _RULE.fullmatch(line):
            yield _node(line, is_after_blank)
            is_after_blank = False


def _node(line: str, is_after_blank: bool) -> _Node:
    bare = line.lstrip(" │├└─┬|") if line.lstrip()[:1] in "│├└" else line.lstrip()
    indent = len(line) - len(bare)
    if heading := _HEADING.fullmatch(bare):
        return _Node(heading[2].strip("#* "), indent, len(heading[1]), is_after_blank=is_after_blank)
    bullet = _BULLET.match(bare)
    text = bare[bullet.end() :] if bullet else bare
    return _Node(text.strip(), indent, is_bullet=bool(bullet), is_after_blank=is_after_blank)


def _ruled_table(lines: Sequence[str], start: int) -> tuple[list[dict[str, Any]], int]:
    """Read a header, a rule and rows whose cells are separated by `|` or stand below the rule's dashes."""
    if start + 1 >= len(lines) or not _RULE.fullmatch(lines[start + 1]) or not lines[start].strip():
        return [], 0
    rule = lines[start + 1]
    is_barred = "|" in lines[start]
    spans = [match.span() for match in re.finditer(r"[-=─━:]{2,}", rule)]
    if not is_barred and len(spans) < 2:
        return [], 0
    header = _cells(lines[start], is_barred, spans)
    is_nameless = not any(header)
    if is_nameless:
        header = [f"column {number}" for number in range(1, len(header) + 1)]
    rows, position = [], start + 2
    while position < len(lines) and lines[position].strip():
        if _RULE.fullmatch(lines[position]) is None:
            if is_barred and "|" not in lines[position]:
                break
            cells = _cells(lines[position], is_barred, spans)
            rows.append({name: typed(cell) for name, cell in zip(header, cells, strict=False) if name})
        position += 1
    if is_nameless and len(header) == 2:  # names and values of one thing
        fields = {str(row["column 1"]): row["column 2"] for row in rows if row.get("column 1") is not None}
        rows = [fields] if len(fields) == len(rows) else rows
    is_table = len(set(header)) == len(header) and (rows or is_barred)
    return (rows, position - start) if is_table else ([], 0)


def _cells(line: str, is_barred: bool, spans: Sequence[tuple[int, int]]) -> list[str]:
    if is_barred:
        return [cell.strip() for cell in line.strip().strip("|").split("|")]
    starts = [start for start, _ in spans]
    return [line[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]


def _nested(nodes: Iterator[_Node | list[Any]]) -> list[_Node | list[Any]]:
    """Put lines below the heading, the list item or the indented line that they belong to."""
    roots: list[Any] = []
    stack: list[_Node] = []
    for node in nodes:
        if isinstance(node, list):
            (stack[-1].children if stack else roots).append(node)  # type: ignore[arg-type]
            continue
        while stack and not _belongs(node, stack[-1]):
            stack.pop()
        (stack[-1].children if stack else roots).append(node)
        stack.append(node)
    return roots


def _belongs(node: _Node, parent: _Node) -> bool:
    if node.heading or parent.heading:
        return bool(parent.heading) and (not node.heading or node.heading > parent.heading)
    if node.indent != parent.indent:
        has_value = bool(parent.pair and parent.pair[1])  # `Date: Monday`, a blank line, an indented text
        return node.indent > parent.indent and not (node.is_after_blank and has_value)
    if parent.is_bullet:
        return not node.is_bullet and not node.is_after_blank
    return node.is_bullet and (parent.text.endswith(":") or parent.text.endswith(":**"))


def _data_of(nodes: Sequence[_Node | list[Any]]) -> Any:
    """Return what siblings are: the fields of one thing, a list of things, or both."""
    tables = [node for node in nodes if isinstance(node, list)]
    lines = [node for node in nodes if isinstance(node, _Node)]
    if tables:
        rest = _data_of(lines) if lines else {}
        fields = rest if isinstance(rest, dict) else {"lines": rest}
        return {**fields, "rows": tables[0], **{f"rows {n}": t for n, t in enumerate(tables[1:], 2)}}
    pairs = [node for node in lines if node.pair and (not node.children or not node.pair[1])]
    others = [node for node in lines if node not in pairs]
    if pairs and _is_list_of_numbers(pairs):
        others, pairs = [*pairs, *others], []
    records = _records(pairs)
    if not others:
        return records if len(records) != 1 else records[0]
    if len(records) > 1 and all(not node.children for node in others):
        return records  # sentences around a list of things
    things = _things(others)
    if not pairs:
        return things
    fields = records[0] if len(records) == 1 else {"items": records}
    return {**fields, **(things if isinstance(things, dict) else {"entries": things})}


def _is_list_of_numbers(pairs: Sequence[_Node]) -> bool:
    """Return whether list items of names and numbers are rows (`- apples: 3`) and not fields."""
    leaves = [node for node in pairs if node.is_bullet and not node.children]
    if len(leaves) < 3 or len(leaves) < len(pairs):
        return False
    cells = [typed(node.pair[1]) for node in leaves if node.pair]
    return len({type(cell) for cell in cells}) == 1 and isinstance(cells[0], int | float)


def _records(pairs: Sequence[_Node]) -> list[dict[str, Any]]:
    """Return the fields; a key that comes again begins another record."""
    records: list[dict[str, Any]] = [{}]
    for node in pairs:
        assert node.pair is not None
        key, value = node.pair
        if key in records[-1]:
            records.append({})
        records[-1][key] = _data_of(node.children) if node.children else typed(value)
    return [record for record in records if record]


def _things(nodes: Sequence[_Node]) -> Any:
    """Return lines as a list of records, or by their texts if they are headings of different parts."""
    parents = [node for node in nodes if node.children]
    inline = [node for node in nodes if node.record and not node.children]
    if inline and len(inline) >= len(nodes) - 2:
        return [node.record for node in inline]  # lines around them are sentences
    if not parents:
        return split_lines([node.text for node in nodes])
    below = [_data_of(node.children) for node in parents]
    keys = [set(data) if isinstance(data, dict) else None for data in below]
    first = keys[0]
    is_list = len(parents) > 1 and first is not None and all(one and one & first for one in keys)
    if is_list:
        titles = split_lines([node.text for node in parents])
        return [
            {**({"title": title} if not isinstance(title, dict) else title), **data}
            for title, data in zip(titles, below, strict=False)
        ]
    named: dict[str, Any] = {}
    leaves = [node.text for node in nodes if not node.children]
    for node, data in zip(parents, below, strict=True):
        title = (node.pair[0] if node.pair else node.text).rstrip(":* ").lstrip("* ")
        named[title[:60]] = _titled(title, data)
    return {**named, **({"lines": split_lines(leaves)} if len(leaves) > 1 else {})}


def _titled(title: str, data: Any) -> Any:
    """Name the only column of a list for its title: below `Books:` are books."""
    if isinstance(data, list) and data and all(not isinstance(item, dict | list) for item in data):
        return [{noun_of(title) or "item": item} for item in data]
    return data
