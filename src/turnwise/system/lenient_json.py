"""Read what was meant as JSON: the value, and what has to be changed so that it is JSON.

Every change is one that the text leaves no choice about, such as `true` for `True`. Where there is a choice,
reading stops with the place and with what was expected there.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_DEPTH = 64

_LITERALS = {"true": True, "false": False, "null": None}
_PYTHON = {"True": "true", "False": "false", "None": "null"}
_NO_TEXT = {*_LITERALS, *_PYTHON, "NaN", "Infinity", "undefined", "nil"}
"""Bare words that are no text whose quotes were forgotten."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_.])")
_SPACE = re.compile(r"[ \t\r\n]*")
_CLOSERS = re.compile(r"[ \t\r\n}\]]*\Z")
_FENCE = re.compile(r"[ \t\r\n]*```[a-zA-Z]*[ \t]*\n?(.*?)(?:```[ \t\r\n]*)?\Z", re.DOTALL)
_RAW = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CONTEXT_CHARS = 30
_SHOWN_CHARS = 40


class NotReadable(ValueError):
    """The text leaves open what was meant; the message has the place and what was expected there."""


@dataclass(frozen=True, slots=True)
class Read:
    """The values of a text, and what was changed in it, one clause each: empty if it was JSON."""

    values: tuple[Any, ...]
    changes: tuple[str, ...]
    has_only_literals: bool
    """Whether nothing was changed but Python's True, False and None."""


def read_leniently(text: str) -> Read:
    """Read the values that are all of the text, usually one. Raises NotReadable."""
    fenced = _FENCE.match(text)
    reader = _Reader(fenced[1] if fenced else text)
    if fenced:
        reader.change("leave out the ``` around it")
    values = tuple(reader.values())
    return Read(values, tuple(reader.changes), reader.has_only_literals)


def hint_for(text: str) -> str:
    """Say what to write in place of text that should have been one JSON object."""
    try:
        read = read_leniently(text)
    except NotReadable as problem:
        return sentence(str(problem))
    [value, *more] = read.values
    if more or not isinstance(value, dict):
        return "Expected one object with the name of every argument"
    return sentence(f"{'; '.join(read.changes)}. Write: {json.dumps(value, ensure_ascii=False)}")


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


class _Reader:
    """A scan over the text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.changes: dict[str, None] = {}
        self.has_only_literals = True

    def change(self, sentence: str) -> None:
        self.has_only_literals = False
        self.changes[sentence] = None

    def values(self) -> Iterator[Any]:
        yield self._value(0)
        while not _CLOSERS.match(self._text, self._at):
            self._skip()
            if self._peek() != "{":
                self._stop("its end")
            yield self._value(0)
        if self._text[self._at :].strip():
            self.change("leave out the brackets after its end")

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self._stop("less nesting")
        self._skip()
        match self._peek():
            case "{":
                return self._object(depth)
            case "[":
                return self._list(depth)
            case '"' | "'":
                return self._string()
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return self._number(number[0])
        if word := _WORD.match(self._text, self._at):
            return self._word(word[0])
        return self._stop("a value")

    def _number(self, digits: str) -> Any:
        try:
            value = json.loads(digits)
        except ValueError:  # more digits than Python converts
            self._stop("a shorter number")
        if value in (float("inf"), float("-inf")):
            self._stop("a smaller number")
        return value

    def _word(self, word: str) -> Any:
        start, self._at = self._at, self._at + len(word)
        if word in _LITERALS:
            return _LITERALS[word]
        if word in _PYTHON:
            self.changes[f"`{word}` is not JSON: write `{_PYTHON[word]}`"] = None
            return _LITERALS[_PYTHON[word]]
        self._skip()
        if word in _NO_TEXT or self._peek() not in (",", "}", "]", ""):
            self._at = start
            self._stop("a value")
        self.change(f"text stands in double quotes: write {_shown(word)}")
        return word

    def _object(self, depth: int) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        self._at += 1
        while not self._closes("}", is_first=not pairs):
            key = self._key()
            self._skip()
            if self._peek() != ":":
                self._stop("a colon after the key")
            self._at += 1
            if key in pairs:
                self._stop(f"every key once, and {_shown(key)} is given twice")
            pairs[key] = self._value(depth + 1)
        return pairs

    def _list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        self._at += 1
        while not self._closes("]", is_first=not items):
            items.append(self._value(depth + 1))
        return items

    def _closes(self, closer: str, *, is_first: bool) -> bool:
        """Take what stands between two members or after the last one; return whether that was the end."""
        self._skip()
        has_comma = not is_first and self._peek() == ","
        if has_comma:
            self._at += 1
            self._skip()
        if self._peek() == closer:
            if has_comma:
                self.change(f"no comma before `{closer}`")
            self._at += 1
            return True
        if self._at == len(self._text):
            self.change(f"`{closer}` is missing at its end")
            return True
        if not is_first and not has_comma:
            if self._peek() not in "\"'{[":
                self._stop(f"a comma or `{closer}`")
            self.change("a comma is missing between two members")
        return False

    def _key(self) -> str:
        if self._peek() in ('"', "'"):
            return self._string()
        if word := _WORD.match(self._text, self._at):
            self._at = word.end()
            self.change("keys stand in double quotes")
            return word[0]
        return self._stop("a key in double quotes")

    def _string(self) -> str:
        quote = self._peek()
        triple = self._text.startswith(3 * quote, self._at)
        closer = 3 * quote if triple else quote
        start = self._at
        self._at += len(closer)
        parts: list[str] = []
        has_breaks = False
        while not self._text.startswith(closer, self._at):
            if self._at >= len(self._text):
                self._at = start
                self._stop(f"a text that ends with {closer}")
            character = self._peek()
            has_breaks = has_breaks or character in _RAW
            parts.append(self._escape(closer) if character == "\\" else character)
            self._at += character != "\\"
        self._at += len(closer)
        value = "".join(parts)
        if closer != '"':
            self.change(f"text stands in double quotes, not in {closer}")
        elif has_breaks:
            self.change("a line break in a text is written \\n, a tab \\t")
        return value

    def _escape(self, closer: str) -> str:
        """Take one escape; a quote may be escaped although JSON does not ask for it."""
        if self._text.startswith("\\'", self._at):
            if closer == '"':
                self.change("`'` is written without a backslash")
            self._at += 2
            return "'"
        end = self._at + (6 if self._text.startswith("\\u", self._at) else 2)
        # A character beyond the basic plane takes two of them.
        if self._text.startswith("\\u", end) and end == self._at + 6:
            end += 6
        for stop in (end, self._at + 6):
            try:
                character = json.loads(f'"{self._text[self._at : stop]}"')
            except ValueError:
                continue
            if not any("\ud800" <= half <= "\udfff" for half in character):
                self._at = stop
                return str(character)
        return self._stop('an escape of JSON, such as \\n or \\"')

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None, "it also matches nothing"
        self._at = match.end()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _stop(self, expected: str) -> NoReturn:
        before = self._text[max(self._at - _CONTEXT_CHARS, 0) : self._at].strip()
        after = self._text[self._at : self._at + _CONTEXT_CHARS].strip()
        where = f"at character {self._at + 1}, after `{before}`" if before else "at its start"
        raise NotReadable(f"expected {expected} {where}, found {f'`{after}`' if after else 'its end'}")


def _shown(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return written if len(written) <= _SHOWN_CHARS else f'{written[: _SHOWN_CHARS - 2]}…"'
