"""The Hermes format: parse one turn into calls, text and reasoning, and write turns in it.

    <think>thought</think> text <tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>

A call is parsed as JSON from its opening tag on, so a tag inside a JSON string is plain text.
"""

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from turnwise.models.chat.mending import CLOSE as _CLOSE
from turnwise.models.chat.mending import OPEN as _OPEN
from turnwise.models.chat.mending import Mended, mend_calls
from turnwise.system.lenient_json import NotReadable, sentence
from turnwise.types import FormatError, FormatErrorKind, Parsed, ToolCall

TAGS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<tools>",
    "</tools>",
    "<think>",
    "</think>",
)
"""The format's tags: no message, schema or tool output may contain one."""

MAX_DEPTH = 64
"""Nesting levels in a call: far below Python's recursion limit, so results never depend on the stack."""

_MARKERS = re.compile(r"</?(?:tool_call|tool_response|think)>")
_TAG_OPENER, _ESCAPED = re.compile(r"<(?=[^\s=\d])"), r"\\u003c"
_SPACE = re.compile(r"[ \t\r\n]*")
# Matches up to the first `<` outside a string, where a JSON value must have ended. A backslash outside a
# string is not JSON either; stopping there keeps the total time of all attempts on one text linear.
_JSON_RUN = re.compile(r'(?:[^"<\\]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)


class Malformed(Exception):
    """The turn is neither valid calls nor an answer."""

    def __init__(self, kind: FormatErrorKind, message: str) -> None:
        super().__init__(message)
        self.error = FormatError(kind, message)


EMPTY = FormatError(FormatErrorKind.EMPTY, "Nothing was said: call a tool or give the final answer.")
TRUNCATED = FormatError(
    FormatErrorKind.TRUNCATED, "The message was cut off at the length limit: keep it short and finish it."
)
FAKED = FormatError(
    FormatErrorKind.FAKED_RESPONSE,
    "Tool responses and other turns are not yours to write: make the call, end your turn, and wait.",
)
IN_THOUGHT = FormatError(
    FormatErrorKind.CALL_IN_THOUGHT,
    "A call inside <think> is not made: close the thought with </think>, then write the call.",
)
_OPEN_THOUGHT = FormatError(
    FormatErrorKind.UNCLOSED, "The thought was never closed: write </think> before the call or the answer."
)
_NO_OPENING = FormatError(FormatErrorKind.BAD_CALL, f"{_CLOSE} without {_OPEN} before it.")
_NO_CLOSING = FormatError(FormatErrorKind.UNCLOSED, f"{_OPEN} was not closed with {_CLOSE}.")

_MENDABLE = (
    FormatErrorKind.BAD_JSON,
    FormatErrorKind.UNCLOSED,
    FormatErrorKind.BAD_CALL,
    FormatErrorKind.ARGUMENTS_NOT_OBJECT,
)
"""Kinds of malformed calls; the messages of the other kinds say what to write."""
_HINT_CHARS = 600
"""Longer calls are not written out in a hint."""


# --- reading ------------------------------------------------------------------------------------------------


def read_turn(text: str, *, starts_in_thought: bool = False, is_cut: bool = False) -> Parsed:
    """Parse one turn. One malformed call makes the whole turn an error, so that nothing is executed."""
    turn = _Turn(text)
    error: FormatError | None = None
    try:
        turn.read(starts_in_thought)
        error = turn.verdict()
    except Malformed as problem:
        error = problem.error
    if is_cut:
        error = TRUNCATED
    elif error is not None:
        error = _with_hint(error, text)
    calls = () if error else tuple(turn.calls)
    return Parsed("".join(turn.said).strip(), "\n".join(turn.thoughts).strip(), calls, error)


def _with_hint(error: FormatError, text: str) -> FormatError:
    """Add what to write instead, and the calls that were meant if only Python's literals are wrong."""
    spoken = text.rpartition("</think>")[2]
    marker = _MARKERS.search(spoken)
    written = spoken[marker.start() :] if marker and marker.group() != _CLOSE else spoken
    if error.kind not in _MENDABLE or error == _OPEN_THOUGHT or marker is None:
        return replace(error, written=written)
    try:
        mended = mend_calls(written)
        calls = _checked_calls(mended)
    except NotReadable as problem:
        return replace(error, hint=sentence(str(problem)), written=written)
    except Malformed:  # mended JSON that no call may hold, such as half a character
        return replace(error, written=written)
    hint = "; ".join(mended.changes)
    whole = " and ".join(_body(call) for call in calls)
    if len(whole) <= _HINT_CHARS:
        hint += f". The whole call: {whole}" if len(calls) == 1 else f". The calls: {whole}"
    is_certain = mended.has_only_literals and bool(mended.changes)
    return replace(error, hint=sentence(hint), written=written, mended=calls if is_certain else ())


def _checked_calls(mended: Mended) -> tuple[ToolCall, ...]:
    """Return the mended calls, written and read again. Raises Malformed if they cannot be read."""
    meant = [ToolCall("", *check_call(value)) for value in mended.calls]
    turn = _Turn(write_turn("", meant))
    turn.read(starts_in_thought=False)
    return tuple(turn.calls)


class _Turn:
    """The state of a scan over the text, from marker to marker."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.said: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[ToolCall] = []
        self.has_draft = False

    def read(self, starts_in_thought: bool) -> None:
        position = self._think(0) if starts_in_thought else 0
        while marker := _MARKERS.search(self.text, position):
            self.said.append(self.text[position : marker.start()])
            position = self._take(marker.group(), marker.end())
        self.said.append(self.text[position:])

    def verdict(self) -> FormatError | None:
        if self.calls:
            return None
        is_silent = not "".join(self.said).strip()
        thought = "\n".join(self.thoughts)
        if self.has_draft or _holds_call(thought) or (is_silent and _OPEN in thought):
            return IN_THOUGHT
        return EMPTY if is_silent else None

    def _take(self, marker: str, after: int) -> int:
        match marker:
            case "<tool_call>":
                name, arguments, after = take_call(self.text, after)
                self.calls.append(ToolCall(f"call_{len(self.calls)}", name, arguments))
            case "<think>":
                after = self._think(after)
            case "</think>":
                # The opening tag may be in the prompt or missing: everything so far was the thought.
                self.thoughts.append("".join(self.said))
                self.has_draft = self.has_draft or bool(self.calls)
                self.said, self.calls = [], []
            case "</tool_call>":
                raise Malformed(_NO_OPENING.kind, _NO_OPENING.message)
            case _:
                raise Malformed(FAKED.kind, FAKED.message)
        return after

    def _think(self, start: int) -> int:
        end = self.text.find("</think>", start)
        self.thoughts.append(self.text[start:] if end < 0 else self.text[start:end])
        if end < 0:
            error = IN_THOUGHT if _OPEN in self.thoughts[-1] else _OPEN_THOUGHT
            raise Malformed(error.kind, error.message)
        return end + len("</think>")


def _holds_call(thought: str) -> bool:
    """Whether a thought contains a complete, valid call; a mere mention of the tag does not count."""
    for opening in re.finditer(_OPEN, thought):
        run = _JSON_RUN.match(thought, opening.end())
        assert run is not None, "it also matches nothing"
        if not thought.startswith(_CLOSE, run.end()):
            continue
        try:
            check_call(_DECODER.decode(run[0]))
        except (ValueError, RecursionError, Malformed):
            continue
        return True
    return False


def take_call(text: str, start: int) -> tuple[str, dict[str, Any], int]:
    """Return name, arguments and end of the call whose opening tag ends at `start`; raises Malformed."""
    try:
        value, end = _DECODER.raw_decode(text, _skip_space(text, start))
    except (ValueError, RecursionError) as problem:
        if text.find(_CLOSE, start) < 0:
            raise Malformed(_NO_CLOSING.kind, _NO_CLOSING.message) from None
        raise Malformed(
            FormatErrorKind.BAD_JSON, f"The call is not valid JSON: {_reason(problem)}."
        ) from None
    end = _skip_space(text, end)
    if not text.startswith(_CLOSE, end):
        if text.find(_CLOSE, end) < 0 or text.startswith(_OPEN, end):
            raise Malformed(_NO_CLOSING.kind, _NO_CLOSING.message)
        raise Malformed(FormatErrorKind.BAD_JSON, f"One JSON object stands in {_OPEN}, and nothing after it.")
    return *check_call(value), end + len(_CLOSE)


def check_call(value: Any) -> tuple[str, dict[str, Any]]:
    """Return a decoded call's name and arguments; raises Malformed. No key is guessed or ignored."""
    if not isinstance(value, dict):
        raise Malformed(FormatErrorKind.BAD_CALL, 'A call is an object with "name" and "arguments".')
    name = value.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Malformed(FormatErrorKind.BAD_CALL, 'A call needs a "name": the tool\'s name as text.')
    check_value(value)
    if not isinstance(value.get("arguments"), dict):
        raise Malformed(
            FormatErrorKind.ARGUMENTS_NOT_OBJECT, '"arguments" must be a JSON object, {} when there are none.'
        )
    if unknown := sorted(value.keys() - {"name", "arguments"}):
        raise Malformed(
            FormatErrorKind.BAD_CALL, f'A call has only "name" and "arguments", not {unknown[0][:40]!r}.'
        )
    return name, value["arguments"]


def check_value(value: Any) -> None:
    """Refuse what later stages cannot serialise: lone surrogates, infinities, nesting beyond MAX_DEPTH."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = [child for item in level for child in _children(item)]
    if level:
        raise Malformed(FormatErrorKind.BAD_JSON, "The call is nested too deeply.")


def _children(item: Any) -> Iterable[Any]:
    match item:
        case dict():
            return [*item.keys(), *item.values()]
        case list():
            return item
        case str() if any("\ud800" <= character <= "\udfff" for character in item):
            raise Malformed(FormatErrorKind.BAD_JSON, "A string holds half a character (a lone surrogate).")
        case float() if not math.isfinite(item):
            raise Malformed(FormatErrorKind.BAD_JSON, "A number is too large.")
        case _:
            return ()


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    assert match is not None
    return match.end()


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a key is given twice")
    return table


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


def _reason(problem: ValueError | RecursionError) -> str:
    if isinstance(problem, RecursionError):
        return "it is nested too deeply"
    if isinstance(problem, json.JSONDecodeError):
        if problem.msg.startswith("Invalid control character"):
            return "a line break or control character in a string must be escaped"
        return problem.msg[:1].lower() + problem.msg[1:]
    return "a number is too long" if "integer string" in str(problem) else str(problem)


# --- writing ------------------------------------------------------------------------------------------------


def write_turn(text: str, calls: Sequence[ToolCall], *, is_ascii: bool = False) -> str:
    """Write the turn that makes these calls; parsing it returns the same names and arguments."""
    return "\n".join([*([text] if text else []), *(write_call(call, is_ascii=is_ascii) for call in calls)])


def write_call(call: ToolCall, *, is_ascii: bool = False) -> str:
    # A special token's text inside an argument would be encoded as that token, so its `<` is escaped.
    return f"{_OPEN}\n{_TAG_OPENER.sub(_ESCAPED, _body(call, is_ascii=is_ascii))}\n{_CLOSE}"


def _body(call: ToolCall, *, is_ascii: bool = False) -> str:
    return json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=is_ascii)


def write_tools(tools: Sequence[dict[str, Any]]) -> str:
    """The part of a system prompt that offers tools to a model whose template does not support them."""
    schemas = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        "# Tools\n\nYou can call these functions. Each line between <tools> and </tools> describes one:\n"
        f"<tools>\n{schemas}\n</tools>\n\n"
        "To call a function, write its name and its arguments as one JSON object between <tool_call> and "
        "</tool_call>, one such block for each call:\n"
        '<tool_call>\n{"name": "the function\'s name", "arguments": {"an argument": "its value"}}\n'
        "</tool_call>"
    )


def write_responses(contents: Sequence[str]) -> str:
    return "\n".join(f"<tool_response>\n{content}\n</tool_response>" for content in contents)
