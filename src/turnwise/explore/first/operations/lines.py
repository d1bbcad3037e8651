"""Lines of a plain text: how many there are, the first and the last, the one with a certain word."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

from turnwise.explore.first.document import Document, Scalar
from turnwise.explore.first.operations.answer_text import is_sentence
from turnwise.explore.first.operations.columns import (
    MAX_QUERIES,
    answerable,
    form_of,
    is_text_lines,
    picked,
    stated,
)
from turnwise.explore.first.operations.field import WHOLE
from turnwise.explore.first.query import Form, Query
from turnwise.explore.first.wording.names import field_noun
from turnwise.explore.first.wording.sayable import is_sayable

MAX_LINES = 2_000
MAX_TEXT_CHARS = 200_000
MAX_KEY_CHARS = 40
MIN_WORD_CHARS = 5
MIN_COUNTED = 3
"""A text with fewer lines is read at a glance."""
_WORD = re.compile(r"[^\W\d_]{5,20}")


def lines(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield queries about a text that has no fields and no tables other than its lines."""
    has_fields = any(item.path not in ((), ("result",)) for item in document.fields)
    if has_fields or document.is_cut or len(document.text) > MAX_TEXT_CHARS or not _is_prose(document):
        return iter(())
    return itertools.islice(_queries(document, chance), MAX_QUERIES)


def _is_prose(document: Document) -> bool:
    tables_are_lines = all(is_text_lines(document, table) for table in document.tables)
    is_data = document.text.lstrip()[:1] in ("{", "[") and bool(document.fields)
    return tables_are_lines and not is_data


def _queries(document: Document, chance: random.Random) -> Iterator[Query]:
    found = _lines(document)
    if len(found) == 1 and not document.fields and answerable(found[0]):
        yield _query(document, _only_line, WHOLE, "lines/whole")
    if not 1 < len(found) <= MAX_LINES:
        return
    if not document.fields:
        yield from _behind_keys(document, chance)
    yield from _with_word(document, chance)
    for place, name in ((0, "first"), (-1, "last")):
        if answerable(found[place]) and is_sentence(found[place]):
            yield _query(document, _line_at(place), f"the {name} line", f"lines/{name}")
    if len(found) >= MIN_COUNTED and sum(map(is_sentence, found)) > len(found) / 2:
        noun = "the number of lines that are not empty"
        yield Query("lines", _num_lines, len(found), noun, "lines", Form.NUMBER, len(found))


def _lines(document: Document) -> list[str]:
    if document.is_cut:
        raise LookupError("the answer was cut")
    return [line.strip() for line in document.text.splitlines() if line.strip()]


def _only_line(document: Document) -> Scalar:
    found = _lines(document)
    if len(found) != 1:
        raise LookupError(f"the text has {len(found)} lines")
    return stated(found[0])


def _num_lines(document: Document) -> Scalar:
    return len(_lines(document))


def _line_at(place: int) -> Callable[[Document], Scalar]:
    return lambda document: stated(_lines(document)[place])


def _with_word(document: Document, chance: random.Random) -> Iterator[Query]:
    """Yield lines by a word that no other line has."""
    found = _lines(document)
    words_by_line = [list(dict.fromkeys(word.lower() for word in _WORD.findall(line))) for line in found]
    counts = Counter(word for words in words_by_line for word in words)
    fit = [
        (line, words[0])
        for line, all_words in zip(found, words_by_line, strict=True)
        if answerable(line)
        and is_sentence(line)
        and len(line.split()) > 1
        and (words := [word for word in all_words if counts[word] == 1])
    ]
    for _, word in picked(fit, 4, chance):
        yield _query(
            document, _line_with(word), f"the line that contains the word “{word}”", f"lines/word={word}"
        )


def _line_with(word: str) -> Callable[[Document], Scalar]:
    def read(document: Document) -> Scalar:
        found = [
            line for line in _lines(document) if word in [other.lower() for other in _WORD.findall(line)]
        ]
        if len(found) != 1:
            raise LookupError(f"{len(found)} lines have the word {word!r}")
        return stated(found[0])

    return read


def _behind_keys(document: Document, chance: random.Random) -> Iterator[Query]:
    pairs = [line.partition(":") for line in _lines(document)]
    keys = [key.strip() for key, colon, value in pairs if colon and value.strip() and is_sayable(key.strip())]
    counts = Counter(keys)
    for key in picked([key for key in keys if counts[key] == 1], 4, chance):
        read = _behind(key)
        if answerable(read(document)):
            yield _query(document, read, f"the {field_noun(key)}", f"lines/{key}:")


def _behind(key: str) -> Callable[[Document], Scalar]:
    def read(document: Document) -> Scalar:
        pairs = [line.partition(":") for line in _lines(document)]
        values = [
            value.strip() for name, colon, value in pairs if colon and name.strip() == key and value.strip()
        ]
        if len(values) != 1:
            raise LookupError(f"{len(values)} lines begin with {key!r}")
        return stated(values[0])

    return read


def _query(document: Document, read: Callable[[Document], Scalar], noun: str, key: str) -> Query:
    value = read(document)
    return Query("lines", read, value, noun, key, form_of(value), 2)
