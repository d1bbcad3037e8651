"""The parameters of a tool, read from its input schema with the quirks that servers have."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from turnwise.types import Tool

MAX_PARAMETERS = 60
MAX_ENUM = 200
MAX_EXAMPLES = 20
MAX_REF_STEPS = 8
MAX_NESTING = 4
"""Levels of arrays and objects inside a parameter: a list of records that hold a list is three."""
MAX_PATTERN_CHARS = 200

_NESTED_REPEAT = re.compile(r"[)\]}*+][*+{]")
"""A repeated group or class may take exponential time, so such a pattern is left to the server."""

_SQL = re.compile(r"\bSQL\b|\bSELECT (?:quer|statement)", re.IGNORECASE)
_ARGS_LINE = re.compile(
    r"^[ \t]*[-*]?[ \t]*`?(\w{1,64})`?[ \t]*(?:\([^)\n]{0,80}\))?[ \t]*[:–-][ \t]+(\S[^\n]*)$", re.M
)
"""A line of a docstring that describes a parameter: `symbol (str): The ticker, e.g. AAPL`."""


class Kind(StrEnum):
    """The type of the values that a parameter takes."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ARRAY = "array"
    OBJECT = "object"
    ANY = "any"


_KINDS = {
    "string": Kind.TEXT,
    "integer": Kind.INTEGER,
    "number": Kind.NUMBER,
    "boolean": Kind.BOOLEAN,
    "array": Kind.ARRAY,
    "object": Kind.OBJECT,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a tool, or one property of an object that a tool takes."""

    name: str
    kind: Kind
    is_required: bool = False
    description: str = ""
    enum: tuple[Any, ...] = ()
    """The allowed values; a constant is an enum of one."""
    default: Any = None
    examples: tuple[Any, ...] = ()
    format: str = ""
    pattern: str = ""
    minimum: float | None = None
    maximum: float | None = None
    multiple_of: float | None = None
    min_length: int = 0
    max_length: int | None = None
    """Characters of a text, or items of an array."""
    items: "Parameter | None" = None
    """ARRAY: what its items are."""
    properties: tuple["Parameter", ...] = ()
    """OBJECT: its properties."""

    def accepts(self, value: Any) -> bool:
        """Whether the schema allows a value, as far as it is checked here."""
        if self.enum:
            return any(type(value) is type(allowed) and value == allowed for allowed in self.enum)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        match self.kind:
            case Kind.TEXT:
                fits = isinstance(value, str) and self._accepts_text(value)
            case Kind.INTEGER:
                fits = is_number and isinstance(value, int) and self._accepts_number(value)
            case Kind.NUMBER:
                fits = is_number and self._accepts_number(value)
            case Kind.BOOLEAN:
                fits = isinstance(value, bool)
            case Kind.ARRAY:
                fits = isinstance(value, list) and self._accepts_length(len(value))
            case Kind.OBJECT:
                fits = isinstance(value, dict)
            case Kind.ANY:
                fits = True
        return fits

    def _accepts_length(self, length: int) -> bool:
        return length >= self.min_length and (self.max_length is None or length <= self.max_length)

    def _accepts_text(self, text: str) -> bool:
        if not self._accepts_length(len(text)):
            return False
        if not self.pattern or len(self.pattern) > MAX_PATTERN_CHARS or len(text) > MAX_PATTERN_CHARS:
            return True
        return _matches(self.pattern, text)

    def _accepts_number(self, number: float) -> bool:
        if self.minimum is not None and number < self.minimum:
            return False
        if self.maximum is not None and number > self.maximum:
            return False
        return (
            not self.multiple_of or abs(number / self.multiple_of - round(number / self.multiple_of)) < 1e-9
        )


def _matches(pattern: str, text: str) -> bool:
    """Whether a text fits a schema's pattern; True if the pattern cannot be checked safely."""
    if "(" in pattern and _NESTED_REPEAT.search(pattern):
        return True
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True


def parameters_of(tool: Tool) -> tuple[Parameter, ...]:
    """Return the parameters of a tool in the order of its schema."""
    schema = tool.input_schema
    found = _properties(schema, schema, depth=0)
    documented = {name: text.strip() for name, text in _ARGS_LINE.findall(tool.description[:8_000])}
    if len(found) == 1 and found[0].name.lower() == "query" and _SQL.search(tool.description[:600]):
        documented.setdefault(found[0].name, "SQL query")
    return tuple(
        parameter
        if (parameter.description and not _repeats_name(parameter)) or parameter.name not in documented
        else replace(parameter, description=documented[parameter.name])
        for parameter in found
    )


def _repeats_name(parameter: Parameter) -> bool:
    """Whether a description is only the title that schemas are generated with: "Tx Id" for `tx_id`."""
    return parameter.description.replace(" ", "_").lower() == parameter.name.lower()


def _properties(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> tuple[Parameter, ...]:
    schema = _resolved(schema, root)
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return ()
    listed = schema.get("required")
    required = (
        {name for name in listed if isinstance(name, str)} if isinstance(listed, list | tuple) else set()
    )
    return tuple(
        _parameter(str(name), part if isinstance(part, Mapping) else {}, root, name in required, depth)
        for name, part in list(properties.items())[:MAX_PARAMETERS]
    )


def _parameter(
    name: str, schema: Mapping[str, Any], root: Mapping[str, Any], is_required: bool, depth: int
) -> Parameter:
    schema = _resolved(schema, root)
    enum = _enum_of(schema)
    kind = _kind_of(schema, enum)
    step = 1.0 if kind is Kind.INTEGER else 0.01
    minimum, maximum = _number(schema, "minimum"), _number(schema, "maximum")
    above, below = _number(schema, "exclusiveMinimum"), _number(schema, "exclusiveMaximum")
    sizes = ("minItems", "maxItems") if kind is Kind.ARRAY else ("minLength", "maxLength")
    longest = _number(schema, sizes[1])
    items = schema.get("items")
    return Parameter(
        name=name,
        kind=kind,
        is_required=is_required,
        description=_text(schema, "description") or _text(schema, "title"),
        enum=enum,
        default=schema.get("default"),
        examples=_examples_of(schema),
        format=_text(schema, "format"),
        pattern=_text(schema, "pattern"),
        minimum=minimum if above is None else above + step,
        maximum=maximum if below is None else below - step,
        multiple_of=_number(schema, "multipleOf"),
        min_length=int(_number(schema, sizes[0]) or 0),
        max_length=None if longest is None else int(longest),
        items=_parameter(name, items if isinstance(items, Mapping) else {}, root, True, depth + 1)
        if kind is Kind.ARRAY and depth < MAX_NESTING
        else None,
        properties=_properties(schema, root, depth + 1)
        if kind is Kind.OBJECT and depth < MAX_NESTING
        else (),
    )


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow `$ref`, merge `allOf`, and choose the first alternative that is not null."""
    for _ in range(MAX_REF_STEPS):
        outer = {
            key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")
        }
        if "$ref" in schema:
            schema = {**_referenced(schema["$ref"], root), **outer}
        elif isinstance(schema.get("allOf"), list):
            parts = (_referenced(part.get("$ref"), root) | dict(part) for part in _mappings(schema["allOf"]))
            schema = {key: value for part in parts for key, value in part.items() if key != "$ref"} | outer
        elif alternatives := [*_mappings(schema.get("anyOf")), *_mappings(schema.get("oneOf"))]:
            schema = {**_alternative(alternatives), **outer}
        else:
            return schema
    return outer


def _alternative(alternatives: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the first alternative that is not null; alternatives that are all constants become one enum."""
    useful = [part for part in alternatives if part.get("type") != "null"] or [{}]
    enums = [_enum_of(part) for part in useful]
    if all(enums):
        return {**useful[0], "const": None, "enum": [value for enum in enums for value in enum]}
    return dict(useful[0])


def _referenced(reference: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `#/$defs/Name` points to; an empty schema if it points to nothing here."""
    found: Any = root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return {}
    for part in reference[2:].split("/")[:MAX_REF_STEPS]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def _mappings(items: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, Mapping))


def _enum_of(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    listed = schema.get("enum")
    if isinstance(listed, list):
        return tuple(value for value in listed if value is not None)[:MAX_ENUM]
    return () if schema.get("const") is None else (schema["const"],)


def _kind_of(schema: Mapping[str, Any], enum: tuple[Any, ...]) -> Kind:
    """Return the declared type, or the type that the other keywords show."""
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    known = [_KINDS[name] for name in names if isinstance(name, str) and name in _KINDS]
    if known:
        return known[0]
    if "properties" in schema:
        return Kind.OBJECT
    if "items" in schema:
        return Kind.ARRAY
    samples = [*enum, *_examples_of(schema), schema.get("default")]
    kinds = {_kind_of_value(sample) for sample in samples if sample is not None}
    if any(key in schema for key in ("pattern", "minLength", "maxLength", "format")):
        return Kind.TEXT
    return kinds.pop() if len(kinds) == 1 else Kind.ANY


def _kind_of_value(value: Any) -> Kind:
    for type_, kind in ((bool, Kind.BOOLEAN), (int, Kind.INTEGER), (float, Kind.NUMBER), (str, Kind.TEXT)):
        if isinstance(value, type_):
            return kind
    return Kind.ARRAY if isinstance(value, list) else Kind.OBJECT


def _examples_of(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    listed = schema.get("examples")
    found = listed if isinstance(listed, list) else [schema.get("example")]
    return tuple(value for value in found if value is not None)[:MAX_EXAMPLES]


def _number(schema: Mapping[str, Any], key: str) -> float | None:
    value = schema.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(schema: Mapping[str, Any], key: str) -> str:
    value = schema.get(key)
    return value if isinstance(value, str) else ""
