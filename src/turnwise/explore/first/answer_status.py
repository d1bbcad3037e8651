"""Recognise answers that are not marked as errors and still say that a call failed, or found nothing."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from turnwise.explore.first.document import MAX_CHARS, MAX_DEPTH
from turnwise.explore.first.json_text import NoJson, json_in

_ERROR_CHARS = 600
"""An error message is short; a longer text that begins like one is a log or a document."""
_ERROR_START = re.compile(
    r"\W{0,4}(?:(?:[a-z]{1,20} ){1,3}(?:error|exception|failed|failure) ?:"
    r"|[^\n]{0,200}\b(?:ENOENT|EISDIR|ENOTDIR|EACCES|EPERM): "
    r"|[a-z_.]{0,40}(?:error|exception)\b|err:|failed\b|failure\b|fatal\b|invalid\b|unknown "
    r"|cannot\b|could not\b|can't\b|unable to\b|access denied|permission denied|unauthori[sz]ed|forbidden"
    r"|traceback \(|missing (?:required|parameter|argument)|no such |not found\b|bad request"
    r"|http (?:error )?[45]\d\d|[45]\d\d (?:client|server|not found|forbidden|unauthorized|bad))",
    re.IGNORECASE,
)
_ERROR_END = re.compile(
    r"\b(?:not found|does not exist|doesn't exist|is required|is invalid"
    r"|is not (?:valid|allowed|supported))\b[^\n]{0,80}$",
    re.IGNORECASE,
)
MAX_ERROR_KEYS = 4
"""A record of more keys with the status "failed" is a record of something that failed."""
_ERROR_KEYS = ("error", "errors", "Error")
_FALSE_WORDS = ("", "none", "null", "false", "no", "0", "ok")
_SUCCESS_KEYS = ("success", "succeeded", "ok")
_FAILED_STATE = re.compile(
    r"(?:\w{1,30}[_ -])?(?:error|failed|failure|fail|not[_ -]?found|invalid)", re.IGNORECASE
)
_VERDICT_KEYS = ("valid", "isValid", "is_valid")
"""Keys of a validator's answer: the errors that it lists are its result."""
_NO_DATE = re.compile(r"\bInvalid (?:Date|time)\b|\bNaN\b")

_NOTHING_CHARS = 200
_NOTHING = re.compile(
    r"\W{0,4}(?:no|none|nothing|0|zero)\b(?: [\w'-]{1,30}){0,6}"
    r" ?(?:found|match(?:es|ed|ing)?|results?|available|exists?|to show|yet|entries|items|records)\b"
    r"[^\n]{0,80}"
    r"|\W{0,4}(?:nothing|none)\b[^\n]{0,40}$|[^\n]{0,80}:$",
    re.IGNORECASE,
)
_RESULT_KEYS = frozenset(
    ("results", "result", "matches", "items", "found", "hits", "rows", "entries", "records", "nodes", "files")
)
_MESSAGE_KEYS = frozenset(
    ("message", "status", "note", "hint", "info", "detail", "details", "summary", "description", "type")
)


def says_error(text: str) -> bool:
    """Whether an answer that is not marked as an error says that the call failed."""
    short = text[:MAX_CHARS].strip()
    try:
        data = json_in(short)
    except NoJson:
        data = None
    if isinstance(data, dict):
        return _is_error_record(data)
    if data is not None or not short or len(short) > _ERROR_CHARS:
        return False
    first = short.partition("\n")[0]
    is_one_line = "\n" not in short
    return bool(
        _ERROR_START.match(first) or (is_one_line and (_ERROR_END.search(first) or _NO_DATE.search(first)))
    )


def _is_error_record(data: Mapping[str, Any]) -> bool:
    if data.get("isError") is True or data.get("is_error") is True:
        return True
    if any(data.get(key) is False for key in _SUCCESS_KEYS):
        return True
    status = data.get("status")
    if isinstance(status, str) and _FAILED_STATE.fullmatch(status) and len(data) <= MAX_ERROR_KEYS:
        return True
    if any(key in data for key in _VERDICT_KEYS):
        return False
    for key in _ERROR_KEYS:
        stated = data.get(key)
        is_text = isinstance(stated, str) and stated.strip().lower() not in _FALSE_WORDS
        if stated is True or is_text or (isinstance(stated, dict | list) and stated):
            return True
    return False


def says_nothing(text: str, arguments: Mapping[str, Any]) -> bool:
    """Whether an answer holds nothing: an empty list, zero results, or only what the call said itself."""
    short = text[:MAX_CHARS].strip()
    try:
        data = json_in(short)
    except NoJson:
        return not short or (len(short) <= _NOTHING_CHARS and bool(_NOTHING.fullmatch(short)))
    if isinstance(data, str):
        return not data.strip() or (len(data) <= _NOTHING_CHARS and bool(_NOTHING.fullmatch(data.strip())))
    if not isinstance(data, dict):
        return data is None or data == []
    said = {str(value).strip().lower() for value in arguments.values()}
    leaves = list(_leaves(data))
    has_empty = not data or any(value is None or value in ([], {}, "") for _, value in leaves)
    if has_empty and all(_is_nothing(key, value, said) for key, value in leaves):
        return True
    has_results = any(isinstance(value, list) and value for value in data.values())
    has_none = any(key.lower() in _RESULT_KEYS and value == [] for key, value in data.items())
    return has_none and not has_results and any(value == 0 for _, value in leaves)


def _leaves(data: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the values in nested objects and lists, with the key that each is under; empty ones too."""
    if isinstance(data, dict) and data and depth < MAX_DEPTH:
        for name, value in data.items():
            yield from _leaves(value, str(name), depth + 1)
    elif isinstance(data, list) and data and depth < MAX_DEPTH:
        for value in data:
            yield from _leaves(value, key, depth + 1)
    else:
        yield key, data


def _is_nothing(key: str, value: Any, said: set[str]) -> bool:
    if value is None or isinstance(value, bool) or value in (0, "", [], {}):
        return True
    is_message = key.lower() in _MESSAGE_KEYS and isinstance(value, str)
    return is_message or str(value).strip().lower() in said
