"""Answers that are no answers: errors by their form, and whatever a value that does not exist gets."""

import json
import re
from collections.abc import Mapping
from typing import Any

from turnwise.explore.records import Answer

_MAX_CHARS = 600
"""A longer text is an answer that mentions an error."""
_MAX_FIELDS = 4
"""An object of more fields is a record of something that failed."""
_STATED = re.compile(
    r"\W{0,6}(?:[\w.-]+ ){0,4}?(?:\w*error|\w*exception|failed|failure|invalid|unknown|cannot|unable|"
    r"could not|not found|no such|missing|traceback)\b"
    r"|[^\n]{0,160}\b(?:not found|does not exist|is required|is invalid)\b[^\n]{0,60}$",
    re.IGNORECASE,
)
_LEAD = re.compile(r"\W{0,4}((?:[\w.-]+ ){0,5}[\w.-]+):")
_MIN_ECHO_CHARS = 2


def states_error(text: str) -> bool:
    """Return whether a text that the server does not mark as an error has the form of one."""
    bare = text.strip()
    if bare[:1] == "{":
        try:
            data = json.loads(bare)
        except (ValueError, RecursionError):
            return False
        return isinstance(data, dict) and _is_error_record(data)
    return 0 < len(bare) <= _MAX_CHARS and bool(_STATED.match(bare.partition("\n")[0]))


def _is_error_record(data: Mapping[str, Any]) -> bool:
    if any(data.get(key) is False for key in ("success", "ok")) or data.get("isError") is True:
        return True
    if data.get("status") in ("error", "failed", "failure") and len(data) <= _MAX_FIELDS:
        return True
    stated = data.get("error") or data.get("errors") or data.get("Error")
    return bool(stated) and len(data) <= _MAX_FIELDS


def without_echo(text: str, arguments: Mapping[str, Any]) -> str:
    """Return a text without the values of the call's own arguments."""
    for value in sorted(map(str, leaves(arguments)), key=len, reverse=True):
        if len(value) >= _MIN_ECHO_CHARS:
            text = text.replace(value, "⟨⟩")
        elif value:
            text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "⟨⟩", text)
    return text


def leaves(value: Any) -> list[Any]:
    """Return the values inside objects and lists."""
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


class Refusals:
    """What values that do not exist were answered with, by tool."""

    def __init__(self) -> None:
        self._texts: dict[str, set[str]] = {}
        self._leads: dict[str, set[str]] = {}

    def learn(self, answer: Answer) -> None:
        """Note an answer to an absent value."""
        tool = answer.call.tool
        self._texts.setdefault(tool, set()).add(_masked(answer))
        if lead := _lead_of(answer):
            self._leads.setdefault(tool, set()).add(lead)

    def is_refused(self, answer: Answer) -> bool:
        """Return whether an answer is an error, or what an absent value gets too."""
        tool = answer.call.tool
        if answer.is_error or _masked(answer) in self._texts.get(tool, ()):
            return True
        return _lead_of(answer) in self._leads.get(tool, ())


def _lead_of(answer: Answer) -> str:
    """Return the words before the colon of an answer of one line: `Database error`; may be empty."""
    text = answer.text.strip()
    lead = None if "\n" in text else _LEAD.match(text)
    return lead[1] if lead else ""


def _masked(answer: Answer) -> str:
    return without_echo(answer.text, answer.call.arguments)
