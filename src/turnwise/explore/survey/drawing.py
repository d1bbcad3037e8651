"""Values that fit a parameter when nothing better is known: from its schema and its description."""

import math
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from turnwise.explore.reading.cells import words_of
from turnwise.explore.survey.parameters import Kind, Parameter

NAMES = ("apple", "river", "garden", "silver", "window", "market", "yellow", "mountain", "coffee", "paper")
_DATES = ("2024-03-15", "2023-11-02", "2024-07-28", "2022-01-09")
_FORMATS: dict[str, tuple[str, ...]] = {
    "date": _DATES,
    "date-time": tuple(f"{date}T10:30:00Z" for date in _DATES),
    "time": ("14:30", "09:15", "18:45"),
    "email": ("ann@example.com", "bob@example.org"),
    "uri": ("https://example.com/", "https://example.org/"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    "timezone": ("Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC", "Australia/Sydney"),
    "currency": ("USD", "EUR", "GBP", "JPY"),
    "json": ('[{"name": "ann", "value": 12}, {"name": "bob", "value": 30}]', '{"value": 12}'),
    "formula": ("12 * 7", "(3 + 4) * 5", "144 / 12"),
    "path": (".", "notes.txt", "/"),
    "pattern": ("*", ".*", "**/*"),
    "color": ("#3366cc", "#ff8800"),
}
_STATED = (
    ("date-time", re.compile(r"YYYY-MM-DD[T ]HH|ISO[ -]?8601|RFC ?3339|isoformat", re.IGNORECASE)),
    ("date", re.compile(r"\bYYYY-MM-DD\b|%Y-%m-%d", re.IGNORECASE)),
    ("time", re.compile(r"\bHH:MM\b|24-hour", re.IGNORECASE)),
    ("timezone", re.compile(r"\biana\b|time ?zone", re.IGNORECASE)),
    ("json", re.compile(r"\bJSON (?:text|string|array|list|object|data|encoded)\b", re.IGNORECASE)),
    ("formula", re.compile(r"\b(?:arithmetic|math(?:ematical)?) expression", re.IGNORECASE)),
    ("pattern", re.compile(r"\b(?:glob|regex|regular expression|wildcard)", re.IGNORECASE)),
)
"""Standards of value formats, as a schema or a description states them."""
_SHAPES = {
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "date-time": re.compile(r"\d{4}-\d\d-\d\d.*"),
    "time": re.compile(r"\d\d?:\d\d.*|\d{4}-\d\d-\d\d.*"),
    "email": re.compile(r"\S+@\S+"),
    "uri": re.compile(r"[a-z][a-z0-9+.-]*:\S+"),
    "uuid": re.compile(r"[0-9a-fA-F-]{32,36}"),
    "timezone": re.compile(r"[A-Z][A-Za-z]+(?:/[\w+-]+)*"),
    "currency": re.compile(r"[A-Z]{3}"),
    "json": re.compile(r"\s*[\[{].*", re.DOTALL),
    "color": re.compile(r"#?\w{3,12}"),
}
"""What a text of a format looks like, however it was found."""
_NAMED = {
    "expression": "formula",
    "url": "uri",
    "uri": "uri",
    "zone": "timezone",
    "datetime": "date-time",
    "timestamp": "date-time",
    "directory": "path",
    "folder": "path",
    "file": "path",
    "glob": "pattern",
}
_EXAMPLE = re.compile(
    r"(?:e\.\s?g\.|for example|for instance|such as|examples?|one of|options|either|default)"
    r"[:,\s=(]{0,4}([^.;)\n]{1,160})",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"`([^`\n]{1,120})`|\"([^\"\n]{1,120})\"|(?<!\w)'([^'\n]{1,120})'(?!\w)|“([^”\n]{1,120})”"
)
_BARE = re.compile(r"[\w./:+@#-]{1,60}")
_NUMBERS = (2, 3, 5, 1, 12, 40, 7, 25, 100)


def quoted_in(text: str) -> list[str]:
    """Return the quoted parts of a text, in order."""
    return list(dict.fromkeys(next(filter(None, match.groups())) for match in _QUOTED.finditer(text)))


def examples_of(parameter: Parameter) -> list[Any]:
    """Return the values that a schema or a description names, in order."""
    found: list[Any] = [*parameter.enum, *parameter.examples]
    if parameter.default not in (None, "", [], {}):
        found.append(parameter.default)
    prose = parameter.description[:2_000]
    for clause in _EXAMPLE.findall(prose):
        texts = quoted_in(clause) or [part for part in re.split(r",\s*| or | and ", clause) if part]
        found += [text.strip() for text in texts if len(text.split()) <= 4 or text in quoted_in(prose)]
    if not parameter.examples and len(quoted_in(prose)) > 1:
        found += quoted_in(prose)
    return list(_converted(found, parameter))


def _converted(values: Sequence[Any], parameter: Parameter) -> Iterator[Any]:
    seen: set[str] = set()
    for value in values:
        fitting = fitted(value, parameter)
        if fitting is not None and repr(fitting) not in seen:
            seen.add(repr(fitting))
            yield fitting


def fitted(value: Any, parameter: Parameter) -> Any:
    """Return a value in the type that a parameter takes; None if it does not fit."""
    match parameter.kind:
        case Kind.TEXT if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        case Kind.INTEGER if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value):
            value = int(value)
        case Kind.NUMBER if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}(?:\.\d+)?", value):
            value = float(value) if "." in value else int(value)
        case Kind.BOOLEAN if isinstance(value, str) and value.lower() in ("true", "false"):
            value = value.lower() == "true"
    return value if value is not None and parameter.accepts(value) else None


def format_of(parameter: Parameter) -> str:
    """Return the format of the texts that a parameter takes; empty if none is stated."""
    if parameter.format in _FORMATS:
        return parameter.format
    stated = next((name for name, form in _STATED if form.search(parameter.description[:600])), "")
    words = words_of(parameter.name)
    named = next(
        (_NAMED.get(word, word) for word in reversed(words) if _NAMED.get(word, word) in _FORMATS), ""
    )
    return stated or named


def has_form(value: Any, parameter: Parameter) -> bool:
    """Return whether a value that was found looks like what a parameter states that it takes."""
    shape = _SHAPES.get(format_of(parameter)) if isinstance(value, str) else None
    return shape is None or shape.fullmatch(value) is not None


def drawn(parameter: Parameter, rng: Random) -> Any:
    """Draw a value of a leaf; None if none fits."""
    if parameter.enum:
        return rng.choice(parameter.enum)
    if parameter.kind in (Kind.INTEGER, Kind.NUMBER):
        return _drawn_number(parameter, rng)
    if parameter.kind is Kind.BOOLEAN:
        return rng.random() < 0.5
    choices = _FORMATS.get(format_of(parameter), ())
    text = rng.choice(choices) if choices else rng.choice(" -").join(rng.sample(NAMES, 2))
    if parameter.max_length is not None:
        text = text[: parameter.max_length]
    text = text.ljust(parameter.min_length, "x")
    return text if parameter.accepts(text) else None


def _drawn_number(parameter: Parameter, rng: Random) -> Any:
    low, high = parameter.minimum, parameter.maximum
    if low is None and high is None:
        return rng.choice(_NUMBERS)
    start = low if low is not None else (high or 0) - 50
    end = high if high is not None else start + 50
    number = start + (min(end, start + 99) - start) * rng.random()
    step = parameter.multiple_of or 1
    rounded = math.ceil(number / step) * step
    whole = int(rounded) if float(rounded).is_integer() else rounded
    return next(
        (value for value in (whole, math.ceil(start), round(number, 2)) if parameter.accepts(value)), None
    )


def absent(parameter: Parameter, rng: Random) -> Any:
    """Return a value of a leaf that certainly names nothing; None if every value is an option."""
    if parameter.kind is Kind.ARRAY and parameter.items is not None:
        item = absent(parameter.items, rng)
        return None if item is None else [item]
    if parameter.kind is Kind.OBJECT and parameter.properties:
        parts = [part for part in parameter.properties if part.is_required]
        known = {part.name: absent(part, rng) for part in parts}
        made = {part.name: known[part.name] or drawn(part, rng) for part in parts}
        return made if any(value is not None for value in known.values()) else None
    if parameter.enum or parameter.kind in (Kind.BOOLEAN, Kind.ARRAY, Kind.OBJECT):
        return None
    if parameter.kind in (Kind.INTEGER, Kind.NUMBER):
        number = rng.randrange(700_000, 990_000)
        return number if parameter.accepts(number) else None
    text = "".join(rng.choice("bcdfgkmpqvxz") for _ in range(9))
    return text if parameter.accepts(text) else None
