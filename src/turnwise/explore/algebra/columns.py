"""What the columns of a relation are good for: naming a row, measuring it, sorting it into groups."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from turnwise.explore.records import Cell, Column, Relation
from turnwise.explore.wording.names import is_handle, is_opaque

MAX_CHARS = 80
_MAX_GROUPS = 12
_MIN_LEVELS = 5
"""An integer column with fewer different values may hold codes, whose order nobody knows."""
_SPREAD = 3.0
"""Amounts that are added up differ by more than this factor; rates, grades and ages rarely do."""
_MACHINE = re.compile(r"[0-9a-f]{7,}|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[\w+/=-]*\d[\w+/=-]{15,}|\d+")
_ABSOLUTE = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?/|[A-Za-z]:\\\\")
_PLACE = re.compile(r"(?:[a-z][a-z0-9+.-]*:/)?(?:[\w.-]*/)+[\w.-]*\S*|[A-Za-z]:\\.*")


@dataclass(frozen=True, slots=True)
class Roles:
    """The columns of one relation by use; each is a list with the better columns first."""

    names: tuple[str, ...]
    """Different in all rows, and short enough to be said."""
    measures: tuple[str, ...]
    """Numbers with a natural order."""
    amounts: tuple[str, ...]
    """Measures that can be added up."""
    groups: tuple[str, ...]
    """Few values that repeat."""
    dates: tuple[str, ...]
    asked: tuple[str, ...]
    """Worth asking for."""
    best: tuple[str, ...] = ()
    """What is asked of the row with the highest value."""


def is_sayable(cell: Cell) -> bool:
    """Return whether a value can stand in a sentence."""
    if cell is None or isinstance(cell, bool):
        return False
    text = str(cell)
    return 0 < len(text.strip()) <= MAX_CHARS and text.isprintable() and not set(text) & set("“”")


def is_machine_made(cell: Cell) -> bool:
    """Return whether a value is a hash, a long code or a bare number, which no person would name."""
    return _MACHINE.fullmatch(str(cell)) is not None


def is_location(cell: Cell) -> bool:
    """Return whether a value is a path or an address."""
    return isinstance(cell, str) and _PLACE.fullmatch(cell) is not None


def roles_of(relation: Relation, linked: Collection[str] = ()) -> Roles:
    """Return the roles of the columns; `linked` are those that other calls take, which are names."""
    columns = [
        column
        for column in relation.columns
        if any(cell is not None for cell in relation.values(column.name))
    ]
    names = [column for column in columns if _may_name(relation, column)]
    names.sort(key=lambda column: _name_cost(relation, column, linked))
    measures = [column for column in columns if column.name not in linked and _is_measure(relation, column)]
    asked = [column for column in columns if _may_ask(relation, column, linked)]
    asked.sort(key=lambda column: _asked_cost(relation, column))
    spoken = [column.name for column in names if not all(map(is_machine_made, relation.values(column.name)))]
    return Roles(
        best=tuple(spoken[:1]),
        names=tuple(column.name for column in names),
        measures=tuple(column.name for column in measures),
        amounts=tuple(column.name for column in measures if _is_amount(relation, column)),
        groups=tuple(column.name for column in columns if _is_group(relation, column)),
        dates=tuple(column.name for column in columns if column.kind == "date" and relation.is_list),
        asked=tuple(column.name for column in asked),
    )


def _texts(relation: Relation, column: Column) -> list[Cell]:
    return [cell for cell in relation.values(column.name) if cell is not None]


def _may_name(relation: Relation, column: Column) -> bool:
    cells = relation.values(column.name)
    is_unique = len(set(cells)) == len(cells)
    is_name = column.kind == "text" or (column.kind == "integer" and column.is_key)
    return is_unique and is_name and all(is_sayable(cell) for cell in cells)


def _name_cost(relation: Relation, column: Column, linked: Collection[str]) -> tuple[float, ...]:
    cells = _texts(relation, column)
    machine = sum(is_machine_made(cell) for cell in cells) / len(cells)
    places = sum(is_location(cell) for cell in cells) / len(cells)
    return (
        machine,
        places,
        is_handle(column.name),
        column.name not in linked,
        sum(len(str(cell)) for cell in cells) / len(cells) > 50,
    )


def _is_measure(relation: Relation, column: Column) -> bool:
    is_named = not is_handle(column.name) and not is_opaque(column.name)
    if column.kind not in ("integer", "number") or not relation.is_list or not is_named:
        return False
    cells = [cell for cell in _texts(relation, column) if isinstance(cell, int | float)]
    if column.kind == "number":
        return len(set(cells)) > 2
    values = sorted(set(cells))
    is_numbering = len(values) == len(cells) > 2 and values[-1] - values[0] <= 2 * len(values)
    return len(values) >= _MIN_LEVELS and not is_numbering


def _is_amount(relation: Relation, column: Column) -> bool:
    cells = [cell for cell in _texts(relation, column) if isinstance(cell, int | float)]
    least, most = min(cells), max(cells)
    return least >= 0 and most > _SPREAD * max(least, most / 1000) and len(cells) == len(relation.rows)


def _is_group(relation: Relation, column: Column) -> bool:
    cells = relation.values(column.name)
    counts = Counter(cells)
    is_kind = column.kind in ("text", "boolean")
    is_few = 2 <= len(counts) <= min(_MAX_GROUPS, len(cells) / 2)
    is_said = all(
        isinstance(cell, bool) or (is_sayable(cell) and not is_machine_made(cell)) for cell in counts
    )
    return is_kind and not is_opaque(column.name) and None not in counts and is_few and is_said


def _may_ask(relation: Relation, column: Column, linked: Collection[str]) -> bool:
    """Return whether a person may want to know it: no flag, no id, no code."""
    cells = _texts(relation, column)
    is_id = column.kind == "integer" and (column.name in linked or is_handle(column.name))
    is_code = all(isinstance(cell, str) and is_machine_made(cell) for cell in cells)
    is_absolute = all(isinstance(cell, str) and _ABSOLUTE.match(cell) for cell in cells)
    is_fact = column.kind != "boolean" and not is_id and not is_code and not is_absolute
    return is_fact and not is_opaque(column.name) and any(map(is_sayable, cells))


def _asked_cost(relation: Relation, column: Column) -> tuple[float, ...]:
    cells = _texts(relation, column)
    machine = sum(is_machine_made(cell) and isinstance(cell, str) for cell in cells) / len(cells)
    places = sum(is_location(cell) for cell in cells) / len(cells)
    return (machine, places)
