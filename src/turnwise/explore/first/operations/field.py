"""A plain field of an object: "the population"."""

import random
from collections import Counter
from collections.abc import Callable, Iterator

from turnwise.explore.first.answer_status import says_error
from turnwise.explore.first.document import Document, Field, Path, Scalar
from turnwise.explore.first.operations.columns import MAX_QUERIES, answerable, form_of, picked, stated
from turnwise.explore.first.operations.quantities import is_clock, measure_of
from turnwise.explore.first.query import Form, Query
from turnwise.explore.first.wording.names import (
    field_noun,
    humanised,
    is_plural,
    is_quoted_noun,
    singular,
    words_of,
)
from turnwise.explore.first.wording.sayable import is_failure, is_sayable
from turnwise.explore.first.wording.vocabulary import PREPOSITIONS
from turnwise.explore.first.wording.word_set import word_set

MAX_FIELDS = 200
MAX_DEPTH = 4
MAX_SCANNED = 5_000
"""Fields that are looked at to see whether a list has a second item."""
NUM_ALIKE = 3
"""With this many numbers under one key, the keys are data, like currencies in a table of rates."""
_WRAPPERS = ("result", "results", "data", "response", "output", "items", "rows", "value", "values", "content")
"""Keys that say nothing about what is under them."""
_SUMMARIES = word_set("total count all summary combined sum overall found hint")
"""A text of such a name is a sentence about the answer, like "6 files, 0 directories"."""
_FOLDERS = word_set("directory folder root cwd dir base workspace home")
"""Whole paths of such names are where the server happens to run."""
_REMARKS = word_set("message status note detail")
"""What a tool says about a call, if it says how the call went too."""
_SECRETS = word_set("password passwords secret secrets token tokens credential credentials passphrase apikey")
WHOLE = "the result"
"""What an answer that is one plain value is called."""


def field(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield fields of objects, those nearest to the root first."""
    fields = [item for item in document.fields[:MAX_FIELDS] if _is_single(document, item.path)]
    # A value that stands under two names would let either be read off.
    values = Counter(str(item.value) for item in fields)
    nouns = Counter(_noun(item, fields) for item in fields)
    fit = [
        item
        for item in fields
        if answerable(item.value)
        and (not item.path or _is_worth_asking(item, fields))
        and len(item.path) <= MAX_DEPTH
        and values[str(item.value)] == 1
        and nouns[_noun(item, fields)] == 1
    ]
    shallow_first = sorted(picked(fit, len(fit), chance), key=lambda item: len(item.path))
    for item in shallow_first[:MAX_QUERIES]:
        yield Query(
            "field",
            _reader(item.path),
            stated(item.value),
            noun=_noun(item, fields),
            key=f"field/{'/'.join(map(str, item.path))}",
            form=form_of(item.value),
            measure=measure_of(item.name),
        )


def _reader(path: Path) -> Callable[[Document], Scalar]:
    def read(document: Document) -> Scalar:
        if not _is_single(document, path):
            raise LookupError(f"{path!r} is one of several")
        return stated(document.field(path))

    return read


def _is_single(document: Document, path: Path) -> bool:
    """Return whether every list on the path has this one item only, as in a result of one row."""
    if all(isinstance(part, str) for part in path):
        return True
    if isinstance(path[-1], int) or any(isinstance(part, int) and part != 0 for part in path):
        return False
    seconds = [(*path[:depth], 1) for depth, part in enumerate(path) if part == 0 and isinstance(part, int)]
    return not any(
        other.path[: len(second)] == second for second in seconds for other in document.fields[:MAX_SCANNED]
    )


def _is_worth_asking(item: Field, fields: list[Field]) -> bool:
    """Return whether a field can be said, and says something about what was looked up."""
    words = {word.lower() for word in words_of(item.name)}
    is_summary = isinstance(item.value, str) and words <= _SUMMARIES
    is_remark = bool(words & _REMARKS) and _has_verdict(item, fields)
    is_failed = any(isinstance(part, str) and is_failure(part) for part in item.path)
    return (
        is_sayable(item.name)
        and not (isinstance(item.value, str) and says_error(item.value))
        and not (is_failed or is_remark or is_summary or is_clock(item.name, item.value))
        and words.isdisjoint(_SECRETS)
        and not (is_quoted_noun(field_noun(item.name)) and words.isdisjoint(PREPOSITIONS))
        and not ("size" in words and _is_folder(fields))
        and not (words & _FOLDERS and str(item.value).startswith("/"))
    )


def _has_verdict(item: Field, fields: list[Field]) -> bool:
    """Return whether the fields next to this one say how the call went, which a message then explains."""
    names = {other.name.lower() for other in fields if other.path[:-1] == item.path[:-1]}
    return not names.isdisjoint(("success", "ok", "valid", "error")) or {"status", "message"} <= names


def _is_folder(fields: list[Field]) -> bool:
    """Return whether the fields describe a folder, whose size is a detail of the disk."""
    return any(
        (item.value is True or str(item.value).lower() == "true")
        if {"directory", "folder", "dir"} & {word.lower() for word in words_of(item.name)}
        else item.name.lower() in ("type", "kind")
        and str(item.value).lower() in ("directory", "folder", "dir")
        for item in fields
    )


def _noun(item: Field, fields: list[Field]) -> str:
    if not item.path:
        return WHOLE
    parents = [
        part
        for part in item.path[:-1]
        if isinstance(part, str) and is_sayable(part) and part.lower() not in _WRAPPERS
    ]
    is_count = isinstance(item.value, int) and not isinstance(item.value, bool) and item.value >= 0
    noun = field_noun(item.name, is_date=form_of(item.value) is Form.DATE, is_count=is_count)
    if not parents:
        return f"the {noun}"
    parent = humanised(parents[-1])
    siblings = [other for other in fields if other.path[:-1] == item.path[:-1]]
    are_data = len(siblings) >= NUM_ALIKE and all(
        isinstance(other.value, int | float) and not isinstance(other.value, bool) for other in siblings
    )
    if are_data or (item.name[:1].isupper() and len(siblings) >= NUM_ALIKE):
        return f"the value for “{item.name}” in the {parent}"
    if any(isinstance(part, int) for part in item.path):
        parent = singular(parent) if is_plural(parent) else parent
    joint = "in" if is_quoted_noun(noun) else "of"
    return f"the {noun} {joint} the {parent}"
