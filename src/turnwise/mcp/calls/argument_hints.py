"""Say how refused arguments have to be written: they are mended, and checked against the schema again."""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jsonschema.exceptions import ValidationError

from turnwise.mcp.calls.argument_names import ArgumentNames
from turnwise.system.lenient_json import NotReadable, read_leniently

_MAX_MENDS = 8
"""The most mistakes of one call that are mended for a hint."""
_MAX_DEPTH = 3
"""Levels of an example; a schema may refer to itself."""
_HINT_CHARS = 400
_VALUE_CHARS = 60
_CHOICES_SHOWN = 12

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}

Check = Callable[[dict[str, Any]], ValidationError | None]
"""Returns the most relevant error of the arguments, or None."""


def hint_for(arguments: dict[str, Any], schema: Mapping[str, Any], check: Check) -> str:
    """Return what to write in place of arguments that `check` refuses; empty if nothing can be said."""
    names = ArgumentNames(schema)
    changes: list[str] = []
    error = check(arguments)
    for _ in range(_MAX_MENDS):
        if error is None:
            break
        mended = next(_mended(arguments, error, names, check), None)
        if mended is None:
            break
        arguments, change = mended
        changes.append(change)
        error = check(arguments)
    if error is None:
        whole = json.dumps(arguments, ensure_ascii=False)
        return _short("; ".join(changes), f"the arguments: {whole}" if len(whole) <= _HINT_CHARS else "")
    return _short("; ".join([*changes, *_expected(error)]), _example(arguments, error, schema, names))


def _short(*sentences: str) -> str:
    return ". ".join(part[:1].upper() + part[1:] for part in sentences if part)[: 2 * _HINT_CHARS]


# --- what was certainly meant -------------------------------------------------------------------------------


def _mended(
    arguments: dict[str, Any], error: ValidationError, names: ArgumentNames, check: Check
) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the arguments without this error, and what was changed."""
    path = list(error.absolute_path)
    if not path:
        yield from _renamed(arguments, names)
        return
    where = ".".join(map(str, path))
    for value in (*_same_choices(error), *_conversions(error.instance)):
        changed = _replaced(arguments, path, value)
        if not _is_at(check(changed), path):
            yield changed, f"`{where}`: write {_json(value)}, not {_json(error.instance)}"
    if error.instance is None and len(path) == 1 and path[0] not in names.required:
        kept = {name: value for name, value in arguments.items() if name != path[0]}
        yield kept, f"leave `{where}` out when it has no value"


def _renamed(arguments: dict[str, Any], names: ArgumentNames) -> Iterator[tuple[dict[str, Any], str]]:
    for name in names.unknown(arguments):
        near = names.nearest(name)
        if near and near not in arguments:
            renamed = {near if key == name else key: value for key, value in arguments.items()}
            yield renamed, f"write {_json(near)} in place of {_json(name)}"


def _same_choices(error: ValidationError) -> list[Any]:
    """Return the choices of an enum that differ from the value only by case or white space."""
    schema, value = error.schema, error.instance
    choices = schema.get("enum") if isinstance(schema, Mapping) else None
    if not isinstance(choices, list) or not isinstance(value, str):
        return []
    return [choice for choice in choices if str(choice).lower() == value.strip().lower()]


def _conversions(value: Any) -> Iterator[Any]:
    """Yield what a value of the wrong type may have been meant as, the likeliest first."""
    match value:
        case str():
            yield from _read_from(value)
        case bool():
            pass
        case float() if value.is_integer():
            yield int(value)
            yield json.dumps(value)
        case int() | float():
            yield json.dumps(value)
        case list() if len(value) == 1:
            yield value[0]
    if not isinstance(value, list) and value is not None:
        yield [value]


def _read_from(text: str) -> Iterator[Any]:
    """Yield the value that stands in a text."""
    word = text.strip()
    if word.lower() in _BOOLEANS:
        yield _BOOLEANS[word.lower()]
    try:
        values = read_leniently(word).values
    except NotReadable:
        values = ()
    if len(values) == 1 and not isinstance(values[0], str):
        yield values[0]
    if "," in word and word[:1] not in "[{":
        parts = [part.strip() for part in word.split(",")]
        yield [next((value for value in _read_from(part)), part) for part in parts]
        yield parts


def _replaced(value: Any, path: Sequence[str | int], new: Any) -> Any:
    if not path:
        return new
    first, *rest = path
    if isinstance(value, Mapping):
        return {key: _replaced(item, rest, new) if key == first else item for key, item in value.items()}
    return [_replaced(item, rest, new) if place == first else item for place, item in enumerate(value)]


def _is_at(error: ValidationError | None, path: Sequence[str | int]) -> bool:
    return error is not None and list(error.absolute_path)[: len(path)] == list(path)


# --- what would be right ------------------------------------------------------------------------------------


def _expected(error: ValidationError) -> Iterator[str]:
    where = ".".join(map(str, error.absolute_path))
    if not where or not isinstance(error.schema, Mapping):
        return
    yield f"`{where}` is {_words(error.schema)}"
    choices = error.schema.get("enum")
    if isinstance(choices, list) and isinstance(error.instance, str):
        known = {str(choice).lower(): choice for choice in choices}
        near = difflib.get_close_matches(error.instance[:100].lower(), known, n=1)
        if near:
            yield f"the nearest is {_json(known[near[0]])}"


def _words(schema: Mapping[str, Any]) -> str:
    """Return what a schema asks for: `one of "a", "b"`, `an integer`."""
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        more = ", …" if len(choices) > _CHOICES_SHOWN else ""
        return f"one of {', '.join(map(_json, choices[:_CHOICES_SHOWN]))}{more}"
    if "const" in schema:
        return f"always {_json(schema['const'])}"
    kinds = _kinds(schema)
    if not kinds:
        return f"a value such as {_json(_example_of(schema))}"
    return f"of type {' or '.join(kinds)}, such as {_json(_example_of(schema))}"


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [str(item) for item in kind]
    parts = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(parts, list):
        return []
    return list(dict.fromkeys(kind for part in parts if isinstance(part, Mapping) for kind in _kinds(part)))


def _example(
    arguments: Mapping[str, Any], error: ValidationError, schema: Mapping[str, Any], names: ArgumentNames
) -> str:
    """Return arguments as the schema wants them, with those that were right."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "this tool takes no arguments: {}" if names.unknown(arguments) else ""
    wrong = {error.absolute_path[0]} if error.absolute_path else set()
    kept = {name: value for name, value in arguments.items() if name in properties and name not in wrong}
    wanted = [name for name in properties if name in names.required or name in wrong]
    example = {name: kept[name] if name in kept else _example_of(properties[name]) for name in wanted}
    whole = json.dumps({**example, **kept}, ensure_ascii=False, default=str)
    return f"for example: {whole}" if len(whole) <= _HINT_CHARS else ""


def _example_of(schema: Any, depth: int = 0) -> Any:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return "text"
    lists = [schema[key] for key in ("examples", "enum") if isinstance(schema.get(key), list)]
    stated = [item for choices in lists for item in choices[:1]]
    stated += [schema[key] for key in ("const", "default") if schema.get(key) is not None]
    if stated:
        return stated[0]
    kind = next(iter(_kinds(schema)), "")
    if kind == "object":
        properties, required = schema.get("properties"), schema.get("required")
        named = properties if isinstance(properties, Mapping) and isinstance(required, list) else {}
        return {name: _example_of(named[name], depth + 1) for name in named if name in (required or [])}
    if kind == "array":
        return [_example_of(schema.get("items"), depth + 1)]
    if kind in ("integer", "number"):
        least = schema.get("minimum", 1)
        return least if isinstance(least, int | float) else 1
    return {"boolean": True, "null": None}.get(kind, "text")


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"
