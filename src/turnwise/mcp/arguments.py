"""Takes the arguments a model gave and a tool's schema, gives arguments to call with, or what is wrong."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

logger = logging.getLogger(__name__)

ALIASES: Mapping[str, tuple[str, ...]] = {
    "python_code": ("code",),
    "script": ("code",),
    "ticker_symbol": ("ticker", "symbol"),
    "q": ("query",),
    "text": ("message",),
    "channel_name": ("channel",),
}
"""Argument names models are seen to use, and what tools call them. First name the schema knows wins."""

_MESSAGE_CHARS = 300

_MAX_DEPTH = 100
"""Levels of nesting: pydantic stops writing JSON at about 250, Python's own json at about 1,000."""


class BadArguments(ValueError):
    """The arguments do not fit the schema; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Arguments that fit, and which names were mended on the way."""

    arguments: dict[str, Any]
    repairs: tuple[str, ...]


class ArgumentChecker:
    """Repairs and validates the arguments of one tool; the schema is compiled once."""

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        self._tool = tool
        properties = schema.get("properties")
        self._properties = frozenset(properties if isinstance(properties, Mapping) else ())
        self._validator = _compile(tool, schema)

    def check(self, given: Mapping[str, Any]) -> Checked:
        error = _unsendable(given)
        if error is not None:
            raise BadArguments(f"bad arguments for {self._tool}: {error}")
        arguments, repairs = self._repair(given)
        error = self._first_error(arguments)
        if error is not None:
            raise BadArguments(f"bad arguments for {self._tool}: {error}")
        return Checked(arguments, repairs)

    def _repair(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        arguments: dict[str, Any] = {}
        repairs = []
        for name, value in given.items():
            used = name
            if name not in self._properties:
                free = (known for known in ALIASES.get(name, ()) if known in self._properties)
                used = next((known for known in free if known not in given and known not in arguments), name)
            if used != name:
                repairs.append(f"{name}->{used}")
            arguments[used] = value
        return arguments, tuple(repairs)

    def _first_error(self, arguments: dict[str, Any]) -> str | None:
        if self._validator is None:
            return None
        try:
            error = best_match(self._validator.iter_errors(arguments))
        except (Unresolvable, RecursionError, OverflowError) as broken:
            # Overflow: jsonschema divides by a fractional multipleOf, which no float can do for 10**400.
            logger.warning("%s: cannot check arguments: %s", self._tool, broken)
            return None
        if error is None:
            return None
        where = ".".join(str(part) for part in error.absolute_path)
        return f"{where}: {error.message}"[:_MESSAGE_CHARS] if where else error.message[:_MESSAGE_CHARS]


def _unsendable(given: Mapping[str, Any]) -> str | None:
    """What no server could be sent, whatever its schema: a loop, so that no depth can break it."""
    level: list[Any] = [given]
    for _ in range(_MAX_DEPTH):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, str) and not _is_unicode(value):
                return "a string holds half of a surrogate pair, which is not a character"
            if isinstance(value, Mapping):
                inner.extend(value)
                inner.extend(value.values())
            elif isinstance(value, list | tuple):
                inner.extend(value)
        if not inner:
            return None
        level = inner
    return f"nested deeper than {_MAX_DEPTH} levels"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _compile(tool: str, schema: Mapping[str, Any]) -> Validator | None:
    try:
        # MCP's own default, also for a dialect jsonschema has never heard of.
        kind = validator_for(schema, default=Draft202012Validator)
        kind.check_schema(dict(schema))
    except (SchemaError, RecursionError, AttributeError, TypeError) as error:
        # The server's mistake, not the model's: let the server judge the arguments itself. AttributeError
        # and TypeError: what jsonschema makes of a `$schema` that is no string.
        reason = error.message if isinstance(error, SchemaError) else f"{type(error).__name__}: {error}"
        logger.warning("%s: its schema is not valid JSON Schema (%s); arguments go unchecked", tool, reason)
        return None
    # An empty registry: a schema's $ref is never fetched from anywhere.
    return kind(dict(schema), registry=Registry())
