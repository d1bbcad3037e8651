"""Repair argument names that mean a parameter of the tool's schema but are spelled in another way.

An unknown name becomes a parameter's name in two cases. It is a synonym of exactly one parameter. Or it is
the only unknown name and exactly one required parameter is missing. This second case is a guess, so it is not
made for a tool that may write: a wrong guess there changes something. In both cases the value must fit the
parameter's own schema, and no argument that was given is overwritten.
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

SYNONYMS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "ticker symbol ticker_symbol stock_symbol stock_ticker stock tickers symbols",
        "query q search_query search_term search question",
        "message msg text content body",
        "code python_code script source source_code",
        "channel channel_name channel_id",
        "limit max_results num_results count",
        "start_date from_date date_from from start",
        "end_date to_date date_to to end",
    )
)
"""Groups of synonyms. No name is in two groups."""

_GROUP_OF: Mapping[str, frozenset[str]] = {name: group for group in SYNONYMS for name in group}

_NAMES_ELSEWHERE = frozenset(
    ("patternProperties", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "$ref", "$dynamicRef")
)
"""Schema keywords that may allow names which `properties` does not list."""

ARROW = "->"
"""Separates the given name from the used name in a recorded repair."""

Fits = Callable[[str, Any], bool]
"""`fits(parameter, value)`: whether the parameter's own schema accepts the value."""


class ArgumentNames:
    """The parameter names of one tool."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        properties, required = schema.get("properties"), schema.get("required")
        self.known = tuple(properties) if isinstance(properties, Mapping) else ()
        self._known = frozenset(self.known)
        listed = required if isinstance(required, list | tuple) else ()
        self.required = tuple(name for name in listed if isinstance(name, str))
        # Absent counts as false: servers leave it out, and ignore or refuse unknown names.
        takes_any = schema.get("additionalProperties", False) is not False
        takes_more = schema.get("unevaluatedProperties", False) is not False
        self._is_closed = not (takes_any or takes_more or _NAMES_ELSEWHERE & schema.keys())

    def unknown(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the given names that the schema certainly does not allow."""
        return [name for name in arguments if name not in self._known] if self._is_closed else []

    def missing(self, arguments: Mapping[str, Any]) -> list[str]:
        return [name for name in self.required if name not in arguments]

    def nearest(self, name: str) -> str | None:
        """Return the parameter that a name probably means: a synonym, else a similar spelling, else None."""
        similar = difflib.get_close_matches(name[:100], self.known, n=1)
        return self._synonym(name) or next(iter(similar), None)

    def repaired(
        self, given: Mapping[str, Any], fits: Fits, *, may_guess: bool = True
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the arguments under the tool's own names, and the repairs as `given->used`."""
        renamed: dict[str, str] = {}
        for name in self.unknown(given):
            target = self._synonym(name)
            is_free = target and target not in given and target not in renamed.values()
            if is_free and fits(target, given[name]):
                renamed[name] = target
        arguments = {renamed.get(name, name): value for name, value in given.items()}
        name, target = self._only_one_left(arguments) if may_guess else ("", "")
        if name and fits(target, arguments[name]):
            renamed[name] = target
            arguments = {renamed.get(alias, alias): value for alias, value in given.items()}
        return arguments, tuple(f"{name}{ARROW}{used}" for name, used in renamed.items())

    def _synonym(self, name: str) -> str:
        """Return the only parameter in the name's synonym group; empty if there are none or several."""
        synonyms = self._known & _GROUP_OF.get(name, frozenset())
        return next(iter(synonyms)) if len(synonyms) == 1 else ""

    def _only_one_left(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the only unknown name and the only missing parameter; both empty if either is not unique."""
        unknown, missing = self.unknown(arguments), self.missing(arguments)
        if len(unknown) != 1 or len(missing) != 1 or missing[0] not in self._known:
            return "", ""
        [name], [target] = unknown, missing
        # A name close to another parameter is a misspelling of that one. An arrow makes the record ambiguous.
        is_another = self.nearest(name) not in (None, target)
        return ("", "") if is_another or ARROW in name + target else (name, target)
