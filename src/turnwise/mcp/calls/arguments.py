"""Check a model's arguments against a tool's schema: arguments to call with, or an error for the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.mcp.calls.argument_hints import hint_for
from turnwise.mcp.calls.argument_names import ArgumentNames
from turnwise.mcp.calls.schemas import Schema

_MESSAGE_CHARS = 300

_NAMES_SHOWN, _NAME_CHARS = 3, 50
"""Limits on the unknown names in a message, so that the parameter's name after them is not cut off."""

_MAX_DEPTH = 100
"""Levels of nesting: pydantic fails to write JSON past about 250, Python's own json past about 1,000."""


class BadArguments(ValueError):
    """The arguments do not fit the schema; the message is for the model."""

    def __init__(self, message: str, hint: str = "") -> None:
        """hint: what to write instead."""
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Checked:
    """Arguments that fit the schema, and the name repairs that were made."""

    arguments: dict[str, Any]
    repairs: tuple[str, ...]


class ArgumentChecker:
    """Repairs and validates the arguments of one tool; the schema is compiled once."""

    def __init__(
        self, tool: str, schema: Mapping[str, Any], *, is_mending: bool = True, may_guess: bool = True
    ) -> None:
        """is_mending: repair names that can only mean one parameter, and suggest names in errors; if False,
        errors are the schema's own. may_guess: also rename the only unknown argument to the only missing
        parameter."""
        self._tool = tool
        self._names = ArgumentNames(schema)
        self._is_mending = is_mending
        self._may_guess = may_guess
        self._schema = Schema(tool, schema)
        self._declared = schema

    def check(self, given: Mapping[str, Any]) -> Checked:
        error = _unsendable(given)
        if error is not None:
            raise BadArguments(f"bad arguments for {self._tool}: {error}")
        arguments, repairs = self._mended(given)
        error = self._first_error(arguments)
        if error is not None:
            hint = hint_for(arguments, self._declared, self._schema.first_error)
            raise BadArguments(f"bad arguments for {self._tool}: {error}", hint)
        return Checked(arguments, repairs)

    def _mended(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        if not self._is_mending:
            return dict(given), ()
        return self._names.repaired(given, self._schema.fits, may_guess=self._may_guess)

    def _first_error(self, arguments: dict[str, Any]) -> str | None:
        error = self._schema.first_error(arguments)
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
    """Return why no server can be sent these arguments, or None; a loop, so that no depth overflows it."""
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
