"""Find JSON, or Python literals, in the text of an answer: whole, between lines of prose, or cut off."""

import ast
import json
import re
import warnings
from collections.abc import Iterator
from typing import Any

MAX_PROSE_LINES = 3
"""Lines of prose that may stand before or after the JSON text."""

MAX_PROSE_CHARS = 400

MAX_LITERAL_CHARS = 32_000
"""Longest text that is read as a Python literal: Python's parser needs about 100 bytes a character."""

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_FENCE = re.compile(r"^[ \t]*```[a-zA-Z0-9]{0,12}[ \t]*$", re.MULTILINE)
_SAME_LINE = re.compile(r'[{\[](?=[ \t\r\n]*["{\[}])')


class NoJson(ValueError):
    """The text holds no JSON."""


def json_in(text: str) -> Any:
    """Return the JSON value in the text; NoJson if there is none.

    Several values on lines of their own become a list: servers send the items of a list as separate blocks.
    """
    text = _FENCE.sub("", text).strip()
    for start in _starts(text):
        try:
            values, end = _values_from(text, start)
        except (ValueError, RecursionError):
            continue
        is_bare = start == 0 and end == len(text)
        if not is_bare and (not _is_prose(text[:start]) or not _is_prose(text[end:])):
            continue
        found = values[0] if len(values) == 1 else values
        starts_line = start == 0 or text[start - 1] == "\n"
        if is_bare or _holds_records(found) or (starts_line and isinstance(found, list)):
            return _unwrapped(found)
    return python_literal_in(text)


def python_literal_in(text: str) -> Any:
    """Return a list or a dict that is printed as Python prints it; NoJson if the text is something else."""
    if text[:1] not in ("[", "{", "(") or len(text) > MAX_LITERAL_CHARS or "'" not in text:
        raise NoJson
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unknown escape in a server's text is not the user's mistake
            found = ast.literal_eval(text)
        return json.loads(json.dumps(found))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise NoJson from None


def beginning_of_json(text: str) -> Any:
    """Return the complete part of a JSON text whose end is missing; NoJson if there is none."""
    text = text.lstrip()
    if text[:1] not in ("{", "["):
        raise NoJson
    end, closers = _last_complete(text)
    if not end:
        raise NoJson
    try:
        return json.loads(text[:end] + closers)
    except (ValueError, RecursionError):
        raise NoJson from None


def _starts(text: str) -> Iterator[int]:
    """Yield positions where JSON may begin: the text, one of its first lines, and inside the first line."""
    yield 0
    start = 0
    for _ in range(MAX_PROSE_LINES):
        start = text.find("\n", start) + 1
        if not start:
            break
        if text[start : start + 1] in ("{", "["):
            yield start
    inside = _SAME_LINE.search(text, 1, MAX_PROSE_CHARS)
    if inside:
        yield inside.start()


def _values_from(text: str, start: int) -> tuple[list[Any], int]:
    """Read JSON values from a position on, every one followed by a line break or the end of the text."""
    value, end = _DECODER.raw_decode(text, start)
    values = [value]
    while end < len(text):
        following = _SPACE.match(text, end)
        assert following is not None
        if "\n" not in following.group():
            raise NoJson
        if text[following.end() : following.end() + 1] not in ("{", "["):
            break
        try:
            value, end = _DECODER.raw_decode(text, following.end())
        except ValueError:
            break
        values.append(value)
    return values, end


def _is_prose(text: str) -> bool:
    text = text.strip()
    return len(text) <= MAX_PROSE_CHARS and text.count("\n") < MAX_PROSE_LINES


def _holds_records(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and all(isinstance(item, dict) for item in value)
    )


def _unwrapped(value: Any) -> Any:
    """Decode a JSON text inside a JSON string once."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _last_complete(text: str) -> tuple[int, str]:
    """Return where the last complete element ends, and the brackets that close what is open there."""
    stack: list[str] = []
    found = (0, "")
    is_string = is_escaped = False
    for position, char in enumerate(text):
        if is_string:
            is_string = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
        elif char == '"':
            is_string = True
        elif char in "{[":
            if len(stack) >= 50:
                break
            stack.append("}" if char == "{" else "]")
        elif char in "}]":
            if not stack or stack.pop() != char:
                break
        elif char == "," and stack:
            found = (position, "".join(reversed(stack)))
    return found
