"""Conversations that an earlier system recorded: the calls that were made, what they returned, the answer."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_MARKUP = re.compile(r"<(think|tool_call)>.*?(?:</\1>|\Z)", re.DOTALL)
_RESPONSE = re.compile(r"</?tool_response>|\AFunction result:")
_FAILURE = re.compile(r"❌|error\b|'NoneType'", re.IGNORECASE)
"""How results of the older servers begin if the call failed."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One recorded call; `result` is what the server returned when it was recorded."""

    name: str
    arguments: Mapping[str, Any]
    result: str = ""
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded episode: the calls of each turn, and the answer, empty if there was none."""

    turns: tuple[tuple[RecordedCall, ...], ...]
    answer: str

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        return tuple(call for turn in self.turns for call in turn)


def recording_of(row: Mapping[str, Any]) -> Recording | None:
    """Read `extra_info.original_conversation`, or else `prompt`; None if no call was made."""
    extra = row.get("extra_info")
    if isinstance(extra, str):  # some Parquet files store it as JSON text
        extra = _json(extra)
    original = extra.get("original_conversation") if isinstance(extra, Mapping) else None
    messages = original or row.get("prompt")
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return None
    recording = _read(_first_exchange(messages))
    return recording if recording.turns else None


def _first_exchange(messages: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the messages between the first user message and the next: later questions are other tasks."""
    num_asked = 0
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        num_asked += message.get("role") == "user"
        if num_asked == 1 and message.get("role") in ("assistant", "tool", "function"):
            yield message


def _read(messages: Iterator[Mapping[str, Any]]) -> Recording:
    """Group consecutive calls into turns, pair them with results in order; the last text is the answer."""
    turns: list[list[RecordedCall]] = []
    num_answered = 0
    answer = ""
    for message in messages:
        if message.get("role") == "assistant":
            calls = list(_calls(message))
            if calls and (not turns or num_answered):
                turns.append([])
                num_answered = 0
            if calls:
                turns[-1] += calls
                answer = ""
            answer = _text(message) or answer
        elif turns and num_answered < len(turns[-1]):
            call = turns[-1][num_answered]
            result, has_failed = _result(str(message.get("content") or ""))
            turns[-1][num_answered] = RecordedCall(call.name, call.arguments, result, has_failed)
            num_answered += 1
            answer = ""
    return Recording(tuple(tuple(turn) for turn in turns), answer)


def _calls(message: Mapping[str, Any]) -> Iterator[RecordedCall]:
    content = message.get("content")
    content = content if isinstance(content, str) else ""
    # Stop at the last closing tag: past it, the regex would scan to the end at each opening tag.
    end = content.rfind("</tool_call>") + len("</tool_call>")
    items = [_json(text) for text in _CALL.findall(content, 0, end)]
    parsed = _json(content)
    if isinstance(parsed, Mapping):
        items.append(parsed.get("function_call"))
    wrapped = message.get("tool_calls") or ()
    items += [item.get("function") for item in wrapped if isinstance(item, Mapping)]
    for item in items:
        if not isinstance(item, Mapping) or not isinstance(item.get("name"), str):
            continue  # malformed: no server can have answered it
        arguments = item.get("arguments")
        arguments = _json(arguments) if isinstance(arguments, str) else arguments
        if isinstance(arguments, Mapping):
            yield RecordedCall(item["name"], arguments)


def _text(message: Mapping[str, Any]) -> str:
    """Return the text of an assistant message without its reasoning and its calls."""
    content = message.get("content")
    if not isinstance(content, str) or isinstance(_json(content), Mapping):
        return ""
    return _MARKUP.sub("", content).strip()


def _result(content: str) -> tuple[str, bool]:
    """Return the text of a recorded result, and whether it reports a failure."""
    text = _RESPONSE.sub("", content).strip()
    parsed = _json(text)
    is_error = False
    if isinstance(parsed, Mapping):
        is_error = bool(parsed.get("error") or parsed.get("is_error"))
        inner = next((parsed[key] for key in ("content", "result") if key in parsed), parsed)
        text = inner if isinstance(inner, str) else json.dumps(inner)
    return text, is_error or _FAILURE.match(text.strip()) is not None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
