"""Names and values of servers as plain English: `dueDate` is "due date"."""

import functools
import json
import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]|\d+")
_BARE = re.compile(r"-?\d+(?:\.\d+)?|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?Z?)?")
_HANDLES = ("id", "ids", "key", "uuid", "name", "names", "path", "paths", "title")
"""Last words of a name that say in which way it names a thing, and not what."""


_MIN_LETTERS = 3
"""Shorter words are abbreviations that nobody outside the server knows."""
_MAX_WORDS = 8
"""A longer name is a text, which may say anything to the model that reads the question."""
PREPOSITIONS = ("from", "to", "by", "at", "in", "of", "on", "for", "with", "since", "until")


@functools.cache
def _engine():  # type: ignore[no-untyped-def]  # inflect takes a moment to import
    import inflect

    return inflect.engine()


@functools.cache
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of an identifier, small: `sourceURL` gives `source` and `url`."""
    words = _WORD.findall(name) if name.isascii() else re.split(r"[\W_]+", name)
    return tuple(word.lower() for word in words if word)


def human(name: str) -> str:
    """Return an identifier as words."""
    return " ".join(words_of(name)) or name


@functools.cache
def singular(noun: str) -> str:
    """Return the singular of a noun's last word; unchanged if it is no plural."""
    head, _, last = noun.rpartition(" ")
    if len(last) < 4 or last.endswith("ss"):
        return noun
    return f"{head} {_engine().singular_noun(last) or last}".strip()


@functools.cache
def plural(noun: str) -> str:
    """Return the plural of a noun's last word."""
    head, _, last = noun.rpartition(" ")
    is_plural = singular(last) != last
    return noun if is_plural or not last else f"{head} {_engine().plural_noun(last) or last}".strip()


def entity_noun(name: str) -> str:
    """Return what a parameter or column names: "customer" of `customer_id`; empty if it does not say."""
    words = [word for word in words_of(name) if not word.isdigit()]
    while words and (words[-1] in _HANDLES or len(words[-1]) < _MIN_LETTERS):
        words.pop()
    return singular(" ".join(words))


def handled_noun(name: str) -> str:
    """Return the noun of a parameter that names a thing: "customer" of `customerName`, nothing of `limit`."""
    return entity_noun(name) if words_of(name)[-1:] and words_of(name)[-1] in _HANDLES else ""


def is_opaque(name: str) -> bool:
    """Return whether a name is not one that a person would say: `t`, `fm`, `2`, or a whole text."""
    words = words_of(name)
    return len(words) > _MAX_WORDS or not any(
        (len(word) >= _MIN_LETTERS or word in PREPOSITIONS) and not word.isdigit() for word in words
    )


def is_handle(name: str, *, or_name: bool = False) -> bool:
    """Return whether a name says that its values are ids; or also names, paths and the like."""
    last = words_of(name)[-1:]
    return last in (("id",), ("ids",), ("uuid",), ("key",)) or (
        or_name and last[0:] != () and last[0] in _HANDLES
    )


def stated_column(name: str, noun: str, kind: str = "") -> str:
    """Return a column's name as a noun without that of its row: "number of pages" of `book_pages`."""
    words = human(name.rpartition(".")[2] if name.count(".") > 1 else name)
    words = words.removeprefix(f"{noun} ") or words
    if words in PREPOSITIONS:
        return f"“{words}”"
    if kind == "integer" and singular(words) != words and not words.startswith("number of "):
        rest = words.removeprefix("total ")
        return f"{'' if rest == words else 'total '}number of {rest}"
    if kind == "integer" and words.endswith(" count"):
        return f"number of {plural(words.removesuffix(' count'))}"
    if kind == "date" and not words.endswith((" date", "date", " time", "time", "day")):
        return f"{words.removesuffix(' at').removesuffix(' on')} date"
    return words


def article(noun: str) -> str:
    """Return the noun with "a" or "an"."""
    return str(_engine().a(noun))


def quoted(value: object) -> str:
    """Return a value as it stands in a sentence: texts in quotes, numbers and dates bare."""
    if isinstance(value, str):
        return value if _BARE.fullmatch(value) else f"“{value}”"
    return json.dumps(value, ensure_ascii=False, default=str)


def listing(items: list[str]) -> str:
    """Return "a, b and c"."""
    return " and ".join([", ".join(items[:-1]), items[-1]]) if len(items) > 1 else "".join(items)
