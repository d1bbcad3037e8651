"""What a set of reading calls answers at one time, compared with another time."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from turnwise.explore.records import Answer, Call, Cell, Path, Relation, RowDifference
from turnwise.explore.survey.sessions import Session

_CLOCK = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ,]+\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?Z|[+-]\d\d:?\d\d)?(?: ?[AP]M)?)"
    r"|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?[AP]M)?\b"
)
_EPOCH = re.compile(r"\b1\d{9}(?:\d{3}|\d{6}|\.\d+)?\b")
_NEAR_SECONDS = 86_400.0
Snapshot = Mapping[str, Answer]
"""Answers by call key."""


async def snapshot(session: Session, calls: Iterable[Call]) -> dict[str, Answer]:
    """Make the calls in order."""
    answers: dict[str, Answer] = {}
    for call in calls:
        if call.key not in answers and not session.budget.is_spent:
            answers[call.key] = await session.call(call)
    return answers


def without_clock(text: str) -> str:
    """Return a text with clock times, and counts of seconds near the present, replaced."""
    now = time.time()

    def masked(found: re.Match[str]) -> str:
        number = float(found[0])
        scale = 10 ** max(0, len(found[0].partition(".")[0]) - 10)
        return "<time>" if abs(number / scale - now) < _NEAR_SECONDS else found[0]

    return _EPOCH.sub(masked, _CLOCK.sub("<time>", text))


def steady_cell(cell: Cell) -> Cell:
    """Return a cell without clock times; a number of seconds near the present is one."""
    if isinstance(cell, bool) or cell is None:
        return cell
    masked = without_clock(str(cell))
    return cell if masked == str(cell) else masked


def is_present(cell: Cell) -> bool:
    """Return whether a number counts the seconds to a time near the present."""
    is_number = isinstance(cell, int | float) and not isinstance(cell, bool)
    return is_number and steady_cell(cell) != cell


@dataclass(slots=True)
class Volatile:
    """What differs without a cause: columns by tool and path, and tools that differ as a whole."""

    columns: set[tuple[str, Path, str]] = field(default_factory=set)
    tools: set[str] = field(default_factory=set)

    def learn(self, first: Answer, second: Answer) -> None:
        """Note what differs between two answers to the same call that no other call came between."""
        if without_clock(first.text) == without_clock(second.text):
            return
        tool = first.call.tool
        ones, others = _by_path(first), _by_path(second)
        found: set[tuple[str, Path, str]] = set()
        for path, one in ones.items():
            other = others.get(path)
            if other is None or len(other.rows) != len(one.rows) or other.columns != one.columns:
                self.tools.add(tool)
                return
            found |= {
                (tool, path, column.name) for column in one.columns if _differs(one, other, column.name)
            }
        kept = [path for path, one in ones.items() if len(one.columns) > sum(key[1] == path for key in found)]
        if not found or not kept or ones.keys() != others.keys():
            self.tools.add(tool)
        self.columns |= found

    def rows(self, relation: Relation) -> Counter[tuple[Cell, ...]]:
        """Return the rows of a relation without volatile columns and clocks, as a multiset."""
        places = [
            place
            for place, column in enumerate(relation.columns)
            if (relation.call.tool, relation.path, column.name) not in self.columns
        ]
        return Counter(tuple(steady_cell(row[place]) for place in places) for row in relation.rows)

    def steady_columns(self, relation: Relation) -> tuple[str, ...]:
        key = (relation.call.tool, relation.path)
        return tuple(one.name for one in relation.columns if (*key, one.name) not in self.columns)


def _differs(one: Relation, other: Relation, name: str) -> bool:
    return one.values(name) != other.values(name)


def _by_path(answer: Answer) -> dict[Path, Relation]:
    found: dict[Path, Relation] = {}
    for relation in answer.relations:
        found.setdefault(relation.path, relation)
    return found


def differing(before: Snapshot, after: Snapshot, volatile: Volatile) -> list[str]:
    """Return the keys of the calls whose answers differ in what is not volatile."""
    return [key for key, one in before.items() if key in after and _is_other(one, after[key], volatile)]


def _is_other(one: Answer, other: Answer, volatile: Volatile) -> bool:
    if one.call.tool in volatile.tools or without_clock(one.text) == without_clock(other.text):
        return False
    if one.is_error != other.is_error:
        return True
    return bool(row_differences(one, other, volatile)) or not (one.relations or other.relations)


def row_differences(one: Answer, other: Answer, volatile: Volatile) -> list[RowDifference]:
    """Return the rows that are gone and new in a later answer to the same call."""
    before, after = _by_path(one), _by_path(other)
    found = []
    for path in dict.fromkeys((*before, *after)):
        old, new = before.get(path), after.get(path)
        known = new or old
        assert known is not None
        lost = volatile.rows(old) if old is not None else Counter()
        gained = volatile.rows(new) if new is not None else Counter()
        if lost != gained:
            columns = volatile.steady_columns(known)
            gone, came = tuple((lost - gained).elements()), tuple((gained - lost).elements())
            found.append(RowDifference(one.call, path, known.noun, columns, gone, came))
    return found
