"""Read a server's JSON-RPC message, also one with values that strict parsers refuse.

A tool's output is what a model asked for: half an emoji, bytes that are not UTF-8, deep nesting and long
integers are values of it. Refused as a bad reply, they would be a fault of the infrastructure that the model
can cause at will.
"""

import json
import re
from typing import Any

import mcp_types as wire

_MAX_DEPTH = 100
"""Levels of nesting that are kept; what is deeper becomes its JSON text."""
_MAX_DIGITS = 1_000
"""A longer integer becomes a text: Python refuses to write one of more than 4,300 digits."""
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def read_message(data: bytes) -> wire.JSONRPCMessage:
    """Raise ValueError if the bytes are not a JSON-RPC message."""
    try:
        return wire.jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        return wire.jsonrpc_message_adapter.validate_python(_read_value(data), by_name=False)


def readable(data: bytes) -> bytes:
    """Return JSON with the same content that every strict parser reads; unchanged if it is not JSON."""
    try:
        wire.jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        try:
            return json.dumps(_read_value(data)).encode()
        except ValueError:
            return data
    return data


def _read_value(data: bytes) -> Any:
    value = json.loads(_flattened(data.decode("utf-8", "replace")), parse_int=_integer)
    return _without_half_characters(value)


def _flattened(text: str) -> str:
    """Return JSON text in which everything nested deeper than _MAX_DEPTH is a string.

    ValueError if what is nested so deep does not end.
    """
    parts, depth, end = [], 0, 0
    for token in _STRUCTURE.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
            if depth == _MAX_DEPTH + 1:
                parts.append(text[end : token.start()])
                end = token.start()
        elif token[0] in ("]", "}"):
            if depth == _MAX_DEPTH + 1:
                parts.append(json.dumps(text[end : token.end()]))
                end = token.end()
            depth -= 1
    if depth > _MAX_DEPTH:
        raise ValueError(f"{depth} levels of nesting are not closed")
    return "".join((*parts, text[end:]))


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MAX_DIGITS else digits


def _without_half_characters(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_half_characters(item) for item in value]
    if isinstance(value, dict):
        return {
            _without_half_characters(name): _without_half_characters(item) for name, item in value.items()
        }
    return value
