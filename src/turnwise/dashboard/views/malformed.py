"""Where in a malformed completion the parser's complaint applies."""

import json
import re
from collections.abc import Callable, Mapping

from turnwise.types import FormatErrorKind

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FAKED = re.compile("</?tool_response>")
_SPACE = re.compile(r"\s*")


def place_of(written: str, kind: str) -> int | None:
    """The offset of what is wrong in a completion; None if that is not one place, or not in this format."""
    find = _PLACES.get(kind)
    return find(written) if find else None


def _bad_json(written: str) -> int | None:
    """Where the JSON of the first malformed call ends to be JSON."""
    for opening in re.finditer(_OPEN, written):
        start = _after_space(written, opening.end())
        try:
            _, end = json.JSONDecoder().raw_decode(written, start)
        except json.JSONDecodeError as error:
            return error.pos
        except (ValueError, RecursionError):  # a number that is too long, or too deep
            return start
        end = _after_space(written, end)
        if not written.startswith(_CLOSE, end):
            return end
    return None


def _after_space(written: str, start: int) -> int:
    match = _SPACE.match(written, start)
    assert match is not None, "it also matches nothing"
    return match.end()


def _first(written: str, *marks: str) -> int | None:
    """The place of the first mark that occurs."""
    return next((written.index(mark) for mark in marks if mark in written), None)


def _last(written: str, *marks: str) -> int | None:
    return next((written.rindex(mark) for mark in marks if mark in written), None)


def _faked(written: str) -> int | None:
    match = _FAKED.search(written)
    return match.start() if match else None


_PLACES: Mapping[str, Callable[[str], int | None]] = {
    FormatErrorKind.TRUNCATED: len,
    FormatErrorKind.BAD_JSON: _bad_json,
    FormatErrorKind.UNCLOSED: lambda written: _last(written, _OPEN, "<think>"),
    FormatErrorKind.FAKED_RESPONSE: _faked,
    FormatErrorKind.ARGUMENTS_NOT_OBJECT: lambda written: _first(written, '"arguments"', _OPEN),
    FormatErrorKind.BAD_CALL: lambda written: _first(written, _OPEN, _CLOSE),
    FormatErrorKind.CALL_IN_THOUGHT: lambda written: _first(written, _OPEN),
}
