"""Values checked against a server's JSON Schema within a budget, whatever the schema says.

A schema comes from a server that may be careless or hostile: it may be no schema at all, refer to itself
without end, double with every `$ref`, or hold a pattern that takes for ever. What cannot be checked safely is
not checked: the server checks its own arguments anyway.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, cached_property
from typing import Any

from jsonschema import Draft202012Validator, SchemaError
from jsonschema.exceptions import ValidationError, best_match
from jsonschema.validators import extend, validator_for
from referencing import Registry

logger = logging.getLogger(__name__)

MAX_SCHEMA_BYTES = 200_000
"""A larger schema is not checked; it would not fit into a prompt either."""
_MAX_STEPS = 50_000
"""Most keywords evaluated for one value; a usual call takes a few dozen."""
_MAX_DEPTH = 60
"""Most nested keywords; each takes a handful of Python stack frames."""
_LEFT_TO_THE_SERVER = ("pattern", "patternProperties", "propertyNames", "format")
"""Not checked here: a server's regular expression can take for ever, and its dialect need not be Python's."""


class _Spent(Exception):
    """The budget for one check is used up."""


class _Budget:
    """What one check may still take."""

    def __init__(self) -> None:
        self._num_steps = 0
        self._depth = 0

    def enter(self, num_steps: int) -> None:
        self._depth += 1
        self._num_steps += num_steps
        if self._num_steps > _MAX_STEPS or self._depth > _MAX_DEPTH:
            raise _Spent

    def leave(self) -> None:
        self._depth -= 1


_budget: ContextVar[_Budget] = ContextVar("budget")
"""That of the check under way: the classes of validators are shared, since making one takes 10 ms."""


class Schema:
    """One schema, compiled when it is first used: of thousands of tools few are called."""

    def __init__(self, owner: str, schema: Mapping[str, Any]) -> None:
        self._owner = owner
        self._schema = schema

    @property
    def why_invalid(self) -> str:
        """Why nothing can be checked against it; empty if values can be."""
        token = _budget.set(_Budget())
        try:
            self._compiled()
        except (SchemaError, ValueError, TypeError, RecursionError) as error:
            return _reason(error)
        except _Spent:
            return "it is too large or too deep"
        finally:
            _budget.reset(token)
        return ""

    def first_error(self, value: Any) -> ValidationError | None:
        """Return the most relevant error; None if the value is valid or the schema cannot be checked."""
        validator = self._validator
        return None if validator is None else self._checked(lambda: best_match(validator.iter_errors(value)))

    def fits(self, name: str, value: Any) -> bool:
        """Return whether a value fits the property `name`; False if the schema cannot be checked."""
        validator = self._validator
        if validator is None:
            return False
        part = validator.schema["properties"][name]
        return bool(self._checked(lambda: next(iter(validator.descend(value, part)), None) is None))

    def _checked(self, check: Callable[[], Any]) -> Any:
        token = _budget.set(_Budget())
        try:
            return check()
        except _Spent:
            logger.warning("%s: its schema takes too long to check; the server decides alone", self._owner)
        except BaseException as error:
            # A schema can make the library raise anything, even a Rust panic, which is not an Exception.
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            logger.warning("%s: its schema cannot be checked: %s", self._owner, _reason(error))
        finally:
            _budget.reset(token)
        return None

    @cached_property
    def _validator(self) -> Any:
        return self._checked(self._compiled)

    def _compiled(self) -> Any:
        schema = dict(self._schema)
        num_bytes = len(json.dumps(schema, default=str))
        if num_bytes > MAX_SCHEMA_BYTES:
            raise ValueError(f"{num_bytes:,} bytes are too many")
        # MCP's default dialect; also used for one that jsonschema does not know.
        kind = validator_for(schema, default=Draft202012Validator)
        try:
            _budgeted(kind, keep_all=True)(kind.META_SCHEMA).validate(schema)
        except ValidationError as error:
            raise SchemaError(error.message) from None
        # An empty registry: no $ref is ever fetched.
        return _budgeted(kind, keep_all=False)(schema, registry=Registry())


@cache
def _budgeted(kind: Any, *, keep_all: bool) -> Any:
    """Return the validator class with every keyword counted; unless `keep_all`, some are not checked."""
    keywords = {
        name: _counted(_OWN_KEYWORDS.get(name, function))
        for name, function in kind.VALIDATORS.items()
        if keep_all or name not in _LEFT_TO_THE_SERVER
    }
    if not keep_all:
        keywords["additionalProperties"] = _unless_patterned(keywords["additionalProperties"])
    return extend(
        kind,
        validators={  # type: ignore[no-untyped-call]  # jsonschema has no types for it
            **dict.fromkeys(_LEFT_TO_THE_SERVER, _nothing),
            **keywords,
        },
    )


Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def _counted(function: Keyword) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        budget = _budget.get()
        # A long enum or list of properties is walked for every instance; eight entries cost about one step.
        budget.enter(1 + len(value) // 8 if isinstance(value, list | dict) else 1)
        try:
            yield from function(validator, value, instance, schema) or ()
        finally:
            budget.leave()

    return check


def _unique_items(
    validator: Any, is_asked: Any, instance: Any, schema: Any
) -> Iterator[ValidationError] | None:
    """Check uniqueItems by hashing: jsonschema compares every two objects, which takes quadratic time."""
    if not is_asked or not isinstance(instance, list) or len(set(map(_hashable, instance))) == len(instance):
        return None
    return iter([ValidationError(f"{instance!r} has non-unique elements")])


def _hashable(value: Any) -> Any:
    """Return a key that is equal for values equal in JSON Schema: 1 and 1.0 are, 1 and true are not."""
    match value:
        case bool():
            return "bool", value
        case list():
            return "list", *map(_hashable, value)
        case dict():
            return frozenset((key, _hashable(item)) for key, item in value.items())
        case _:
            return value


_OWN_KEYWORDS: Mapping[str, Keyword] = {"uniqueItems": _unique_items}


def _unless_patterned(function: Keyword) -> Keyword:
    """Skip a schema with patternProperties, which decides what is additional and is not checked here."""

    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
        return None if "patternProperties" in schema else function(validator, value, instance, schema)

    return check


def _nothing(validator: Any, value: Any, instance: Any, schema: Any) -> None:
    """Accept any value: the server checks this keyword."""


def _reason(error: BaseException) -> str:
    return error.message if isinstance(error, SchemaError) else f"{type(error).__name__}: {error}"[:200]
