"""Columns in lines of the same form: `1. Kim (id: 7) - open` three times is a table."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from turnwise.explore.reading.cells import typed

_SEPARATORS = (
    r"\t|\s{2,}",
    r"\s*\|\s*",
    r"\s+(?:[-–—·•→]|[-=]>)\s+",
    r"\s*\(",
    r"\)\s*",
    r"\s*\[",
    r"\]\s*",
    r":\s+",
    r"\s+#",
    r";\s+",
    r",\s+",
    r"=",
)
_TAG = (_SEPARATORS.index(r"\s*\["), _SEPARATORS.index(r"\]\s*"))
_MIN_ALIKE = 0.8
"""Share of lines that must have the same form; the others are sentences around them."""
_MAX_COLUMNS = 16
_LABEL = re.compile(r"[^\W\d][\w -]{0,30}")
_MARK = re.compile(r"([^\w\s\"'(\[{</]{1,3})\s+(?=\w)")
"""A sign before a line: `. s01  Title`, `✓ s02  Title`."""


def split_lines(lines: Sequence[str]) -> list[Any]:
    """Return the rows of lines of the same form; cells alone if they have one column."""
    bare = [line.strip().strip("*") for line in lines]
    marks = [match[1] if (match := _MARK.match(line)) else "" for line in bare]
    if len(bare) > 1 and sum(map(bool, marks)) >= _MIN_ALIKE * len(bare):
        is_same = len(set(marks)) == 1
        bare = [_MARK.sub("" if is_same else r"\1\t", line, count=1) for line in bare]
    kept = [place for place in range(len(_SEPARATORS)) if _is_shared(place, bare)]
    if not kept or len(bare) < 2:
        return [typed(line) for line in bare]
    pattern = re.compile("|".join(f"(?P<s{place}>{_SEPARATORS[place]})" for place in kept))
    forms = [tuple(match.lastgroup for match in pattern.finditer(line)) for line in bare]
    usual, num_alike = Counter(forms).most_common(1)[0]
    if not usual or len(usual) >= _MAX_COLUMNS or num_alike < _MIN_ALIKE * len(bare):
        return [typed(line) for line in bare]
    alike = [line for line, form in zip(bare, forms, strict=True) if form == usual]
    return _rows([_parts(pattern, line) for line in alike], [int((name or "s0")[1:]) for name in usual])


def _is_shared(place: int, lines: Sequence[str]) -> bool:
    counts = Counter(len(re.findall(_SEPARATORS[place], line)) for line in lines)
    num, num_lines = counts.most_common(1)[0]
    return num > 0 and num_lines >= _MIN_ALIKE * len(lines)


def _parts(pattern: re.Pattern[str], line: str) -> list[str]:
    cells, end = [], 0
    for match in pattern.finditer(line):
        cells.append(line[end : match.start()].strip(" *"))
        end = match.end()
    return [*cells, line[end:].strip(" *")]


def _rows(lines: Sequence[Sequence[str]], form: Sequence[int]) -> list[Any]:
    """Name the columns: a text that is the same in all lines names the column after it, but for a tag.

    form: the separators between the columns.
    """
    names: list[str] = []
    columns: list[list[str]] = []
    label = ""
    for cells, before, after in zip(zip(*lines, strict=True), [-1, *form], [*form, -1], strict=True):
        if not any(cells):
            continue
        is_tag = (before, after) == _TAG
        is_label = not is_tag and len(lines) > 1 and len(set(cells)) == 1 and bool(_LABEL.fullmatch(cells[0]))
        if is_label and not label:
            label = cells[0].strip()
            continue
        shared = _shared_end(cells) if len(lines) > 1 else ""
        place = "kind" if is_tag else f"column {len(columns) + 1}" if "item" in names else "item"
        name = label or shared.strip().lower() or place
        while name in names:
            name = f"{name} {len(columns) + 1}"
        names.append(name)
        columns.append([cell.removesuffix(shared).rstrip() for cell in cells])
        label = ""
    if len(columns) == 1 and names == ["item"]:
        return [typed(cell) for cell in columns[0]]
    return [
        {name: typed(cell) for name, cell in zip(names, row, strict=True)}
        for row in zip(*columns, strict=True)
    ]


def _shared_end(cells: Sequence[str]) -> str:
    """Return the word after a number that all cells end with: `12 items`, `3 items`."""
    ends = {match[1] for cell in cells if (match := re.fullmatch(r"-?\d[\d.]*( [^\W\d_]+)", cell))}
    return ends.pop() if len(ends) == 1 and all(re.match(r"-?\d", cell) for cell in cells) else ""
