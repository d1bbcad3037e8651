"""Which text of a later answer proves a change: one that is new, or one that is gone."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from turnwise.explore.first.change_inputs import ChangeInput
from turnwise.explore.first.document import Document, document_of
from turnwise.mcp.calls.results import CUT_MARK
from turnwise.types import StateProbe, Tool

MIN_CHARS = 3
"""A shorter text is in many answers by chance."""
_MAX_BETWEEN = 80
_MAX_FRAGMENT = 240
_MAX_LINE = 120
_MAX_TEXTS = 12
_MAX_PROBES = 2


@dataclass(frozen=True, slots=True)
class Seen:
    """A call that only reads, and its answer before and after a change; empty if it failed."""

    tool: Tool
    arguments: Mapping[str, Any]
    before: str
    after: str
    original: str = ""
    """The answer in a session in which nothing was changed; empty if it is not known."""

    @property
    def named(self) -> str:
        return str(dict(self.arguments))

    def probe(self, *, contains: str = "", lacks: str = "") -> StateProbe:
        return StateProbe(self.tool.name, self.arguments, contains, lacks)


def probes_for(
    made: ChangeInput, seen: Sequence[Seen], *, is_expected: bool = True
) -> tuple[StateProbe, ...]:
    """Return probes that failed before the change and hold after it; none if nothing proves it.

    The texts that were drawn for the change prove most. What is gone comes next, then the values that were
    set, then any line of an answer about the changed thing. The last two only prove a change that the tool's
    name promises (`is_expected`): a side effect of reading is nothing that a person asks for.
    """
    changed = [
        one for one in seen if one.before != one.after and one.after and not CUT_MARK.search(one.after)
    ]
    found = _of_drawn(made, changed)
    gone = _of_removed(made, changed)
    if found:
        # A text that replaces another: one probe shows both.
        both = next((new for new in found for old in gone if _reads_alike(new, old)), None)
        if both is not None:
            old = next(old for old in gone if _reads_alike(both, old))
            if old.lacks not in both.contains:
                return (StateProbe(both.tool, both.arguments, both.contains, old.lacks),)
        return (*found, *gone)[:_MAX_PROBES]
    if gone:
        return gone[:1]
    return tuple(itertools.islice(_of_values(made, changed), 1)) if is_expected else ()


def _reads_alike(one: StateProbe, other: StateProbe) -> bool:
    return one.tool == other.tool and one.arguments == other.arguments


def _of_drawn(made: ChangeInput, changed: Sequence[Seen]) -> tuple[StateProbe, ...]:
    """Return probes for the drawn texts, one for each that an answer shows."""
    found: list[StateProbe] = []
    for text in made.drawn:
        one = next((one for one in changed if _is_new(text, one) and text not in one.named), None)
        if one is not None:
            found.append(one.probe(contains=text))
    return tuple(found)


def _of_removed(made: ChangeInput, changed: Sequence[Seen]) -> tuple[StateProbe, ...]:
    """Return a probe for what is gone from an answer that still shows something else."""
    texts = [
        *made.quoted,
        *made.existing,
        *(text.rstrip("/").rpartition("/")[2] for text in made.existing if "/" in text),
    ]
    for one in changed:
        # Two values that stood next to each other say more precisely what is gone than one of them.
        pairs = (_fragment(*pair, one.before) for pair in _pairs(made.existing))
        for text in (*pairs, *dict.fromkeys(texts)):
            is_gone = len(text) >= MIN_CHARS and text in one.before and text not in one.after
            if one.original and one.original.count(text) != one.before.count(text):
                continue  # earlier changes in this session removed some of it
            kept = _kept(one, text) if is_gone and text not in one.named else ""
            if kept:
                return (one.probe(contains=kept, lacks=text),)
    return ()


def _pairs(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    return itertools.islice(itertools.permutations(dict.fromkeys(texts), 2), _MAX_TEXTS)


def _kept(one: Seen, gone: str) -> str:
    """Return a text that was there before and still is: an answer that lost everything proves nothing."""
    for text in _texts_in(document_of(one.after)):
        was_there = text in one.before and text in (one.original or one.before)
        if len(text) >= MIN_CHARS and was_there and text in one.after and gone not in text:
            return text
    return ""


def _texts_in(document: Document) -> Iterator[str]:
    for table in document.tables:
        for row in table.rows:
            yield from (cell for cell in row.values() if _is_plain(cell))
    yield from (one.value for one in document.fields if _is_plain(one.value))


def _is_plain(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= _MAX_LINE and "\n" not in value


def _of_values(made: ChangeInput, changed: Sequence[Seen]) -> Iterator[StateProbe]:
    """Yield probes for values that were set: at their field, next to each other, or in a new line."""
    values = list(_leaves(made.arguments))
    texts = [value for _, value in values if isinstance(value, str) and len(value) >= MIN_CHARS]
    for one in changed:
        pairs = (_fragment(*pair, one.after) for pair in _pairs(texts))
        fields = (_at_field(name, value, one.after) for name, value in values)
        for text in (*pairs, *texts, *fields):
            if _is_new(text, one) and text not in one.named:
                yield one.probe(contains=text)
    for one in (one for one in changed if one.before):  # after a failure every line is new
        is_about = any(text in one.named for text in texts)
        old = set(one.before.splitlines())
        for line in (line for line in one.after.splitlines() if line not in old):
            is_telling = is_about or any(text in line for text in texts)
            if is_telling and _is_line(line) and line.strip() not in one.before:
                yield one.probe(contains=line.strip())


def _is_new(text: str, one: Seen) -> bool:
    return len(text) >= MIN_CHARS and text in one.after and text not in one.before


def _is_line(line: str) -> bool:
    """Return whether a line is worth looking for: with a word, and without a time or an id in it."""
    text = line.strip()
    has_word = re.search(r"[^\W\d_]{3}", text) is not None
    return MIN_CHARS <= len(text) <= _MAX_LINE and has_word and not re.search(r"\d{6}|\d{4}-\d\d|:\d\d", text)


def _at_field(name: str, value: object, text: str) -> str:
    """Return the part of a text where a field of this name has this value: `"done": true`."""
    shown = "true" if value is True else "false" if value is False else str(value)
    found = re.search(rf"{re.escape(name)}\W{{1,6}}{re.escape(shown)}\b", text, re.IGNORECASE)
    return found[0] if found and shown else ""


def _fragment(first: str, second: str, text: str) -> str:
    """Return the part of a text from one value to another that is near it; empty if there is none."""
    if min(len(first), len(second)) < MIN_CHARS or first == second:
        return ""
    place = text.find(first)
    while place >= 0:
        end = text.find(second, place + len(first), place + len(first) + _MAX_BETWEEN + len(second))
        fragment = text[place : end + len(second)] if end >= 0 else ""
        if fragment and "}" not in fragment and len(fragment) <= _MAX_FRAGMENT:  # within one record
            return fragment
        place = text.find(first, place + 1)
    return ""


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield the plain values of arguments with their names, at any depth."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, name)
    elif isinstance(value, str | int | float):
        yield name, value
