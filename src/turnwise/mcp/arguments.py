"""Check a model's arguments against a tool's schema: arguments to call with, or an error for the model."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

from turnwise.mcp.argument_names import ArgumentNames

logger = logging.getLogger(__name__)

_MESSAGE_CHARS = 300

_NAMES_SHOWN, _NAME_CHARS = 3, 50
"""Of unknown names in a message: the parameter's name after them must not be cut off."""

_UNCHECKABLE = (Unresolvable, RecursionError, OverflowError)
"""What a schema or a value can make the validator raise. Overflow: it divides by a fractional multipleOf,
which no float can do for 10**400."""

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

    def __init__(self, tool: str, schema: Mapping[str, Any], *, is_mending: bool = True) -> None:
        """is_mending: repair names that can only mean one parameter, and name the others in the error; if
        not, the error is the schema's own."""
        self._tool = tool
        self._names = ArgumentNames(schema)
        self._properties = schema.get("properties")
        self._is_mending = is_mending
        self._validator = _compile(tool, schema)

    def check(self, given: Mapping[str, Any]) -> Checked:
        error = _unsendable(given)
        if error is not None:
            raise BadArguments(f"bad arguments for {self._tool}: {error}")
        arguments, repairs = (
            self._names.repaired(given, self._fits) if self._is_mending else (dict(given), ())
        )
        error = self._first_error(arguments)
        if error is not None:
            raise BadArguments(f"bad arguments for {self._tool}: {error}")
        return Checked(arguments, repairs)

    def _mended(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        return self._names.repaired(given, self._fits) if self._is_mending else (dict(given), ())

    def _fits(self, name: str, value: Any) -> bool:
        """Whether the parameter's own schema accepts the value; references are those of the whole schema."""
        if self._validator is None or self._properties is None:
            return True
        try:
            return self._validator.evolve(schema=self._properties[name]).is_valid(value)
        except (
            *_UNCHECKABLE,
            AttributeError,
            TypeError,
        ):  # as in _compile, for the parameter's own `$schema`
            return False

    def _first_error(self, arguments: dict[str, Any]) -> str | None:
        if self._validator is None:
            return None
        try:
            error = best_match(self._validator.iter_errors(arguments))
        except _UNCHECKABLE as broken:
            logger.warning("%s: cannot check arguments: %s", self._tool, broken)
            return None
        if error is None:
            return None
        is_about_names = not error.absolute_path and error.validator in ("required", "additionalProperties")
        unknown = self._names.unknown(arguments) if self._is_mending and is_about_names else []
        if unknown:
            return self._wrong_names(unknown, self._names.missing(arguments))[:_MESSAGE_CHARS]
        where = ".".join(str(part) for part in error.absolute_path)
        return f"{where}: {error.message}"[:_MESSAGE_CHARS] if where else error.message[:_MESSAGE_CHARS]

    def _wrong_names(self, unknown: Sequence[str], missing: Sequence[str]) -> str:
        """unknown argument 'tickr'; did you mean 'ticker'? missing required 'ticker'"""
        parts = []
        for name in unknown[:_NAMES_SHOWN]:
            near = self._names.nearest(name)
            hint = f" did you mean {near!r}?" if near else ""
            parts.append(f"unknown argument {name[:_NAME_CHARS]!r};{hint}")
        if missing:
            parts.append(f"missing required {', '.join(map(repr, missing))}")
        elif not parts[-1].endswith("?"):
            parts.append(f"the arguments are {', '.join(self._names.known)}")
        return " ".join(parts)


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
