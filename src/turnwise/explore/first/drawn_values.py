"""Values within a parameter's bounds, for tools without data behind them: calculators, converters, clocks."""

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from turnwise.explore.first.prose_examples import examples_in
from turnwise.explore.first.sql_queries import LISTING
from turnwise.explore.first.value_formats import CURRENCIES, JSON_EXAMPLES, TIME_ZONES, wanted_format
from turnwise.explore.survey.parameters import Kind, Parameter

WORDS = ("apple", "river", "garden", "silver", "window", "market", "yellow", "mountain", "coffee", "paper")
_INTEGERS = (1, 2, 3, 5, 10, 12, 25, 40, 75, 100)
_NUMBERS = (2.5, 12, 7.25, 40, 0.5, 100)
_DATES = ("2024-03-15", "2023-11-02", "2024-07-28", "2022-01-09")
_OF_FORMAT: dict[str, tuple[str, ...]] = {
    "timezone": TIME_ZONES,
    "currency": CURRENCIES,
    "date": _DATES,
    "datetime": tuple(f"{date}T10:30:00Z" for date in _DATES),
    "time": ("14:30", "2024-03-15 10:30:00", "09:15", "18:45", "06:00"),
    "email": ("ann@example.com", "bob@example.org"),
    "uuid": ("123e4567-e89b-12d3-a456-426614174000",),
    "url": ("https://example.com/", "https://example.org/"),
    "color": ("#3366cc", "#ff8800", "#00aa55"),
    "path": ("notes.txt", "."),
    "pattern": ("*", "**/*", ".*", "*.txt", "*.md", "*.json"),
    "sql": LISTING,
    "formula": ("12 * 7", "(3 + 4) * 5", "144 / 12"),
    "python": ("print(6 * 7)", "6 * 7"),
    "json": JSON_EXAMPLES,
}
_MAX_TRIES = 20


def usual_values(parameter: Parameter) -> Iterator[Any]:
    """Yield a few plain values that a parameter accepts, the same ones every time."""
    match parameter.kind:
        case Kind.INTEGER:
            choices: Sequence[Any] = (*_INTEGERS, *_edges(parameter, is_integer=True))
        case Kind.NUMBER:
            choices = (*_NUMBERS, *_edges(parameter, is_integer=False))
        case Kind.BOOLEAN:
            choices = (True, False)
        case Kind.TEXT | Kind.ANY:
            choices = _texts(parameter)
        case _:
            choices = ()
    yield from (value for value in choices if parameter.accepts(value))


def drawn_value(parameter: Parameter, chance: Random) -> Any:
    """Draw a value that a parameter accepts; LookupError if none is found."""
    if parameter.enum:
        return _pick(parameter.enum, chance)
    examples = [value for value in _examples(parameter) if parameter.accepts(value)]
    if examples and (parameter.kind is Kind.TEXT or chance.random() < 0.3):
        return _pick(examples, chance)
    for _ in range(_MAX_TRIES):
        value = _drawn(parameter, chance)
        if parameter.accepts(value):
            return value
    return _pick(list(usual_values(parameter)), chance)


def _examples(parameter: Parameter) -> list[Any]:
    found = [*parameter.examples, *examples_in(parameter.description)]
    # A time zone or a currency has more values than the one or two that a description names.
    return [*found, *_OF_FORMAT[wanted_format(parameter)]] if _has_vocabulary(parameter) else found


def _has_vocabulary(parameter: Parameter) -> bool:
    return wanted_format(parameter) in ("timezone", "currency")


def _drawn(parameter: Parameter, chance: Random) -> Any:
    match parameter.kind:
        case Kind.INTEGER | Kind.NUMBER:
            return _drawn_number(parameter, chance)
        case Kind.BOOLEAN:
            return chance.random() < 0.5
        case Kind.ARRAY if parameter.items is not None:
            num_items = max(parameter.min_length, 2 + int(chance.random() * 3))
            return [drawn_value(parameter.items, chance) for _ in range(num_items)]
        case Kind.OBJECT:
            needed = [part for part in parameter.properties if part.is_required] or parameter.properties
            return {part.name: drawn_value(part, chance) for part in needed}
        case _:
            return _drawn_text(parameter, chance)


def _drawn_number(parameter: Parameter, chance: Random) -> float:
    """Draw a number with two digits where the bounds allow it."""
    low = parameter.minimum if parameter.minimum is not None else min(1.0, parameter.maximum or 1.0)
    high = parameter.maximum if parameter.maximum is not None else max(low + 1, 99.0)
    if parameter.minimum is not None and high > 99 > low:
        high = 99.0
    drawn = low + (high - low) * chance.random()
    if parameter.kind is Kind.NUMBER and (high - low < 10 or chance.random() < 0.3):
        return round(drawn, 2)
    step = int(parameter.multiple_of or 1) or 1
    return round(drawn / step) * step


def _drawn_text(parameter: Parameter, chance: Random) -> str:
    wanted = wanted_format(parameter)
    if wanted in ("formula", "python"):
        numbers = [2 + int(chance.random() * 40) for _ in range(3)]
        formula = f"({numbers[0]} + {numbers[1]}) * {numbers[2]}"
        return formula if wanted == "formula" else f"print({formula})"
    choices = _OF_FORMAT.get(wanted, WORDS)
    num_words = 1 if choices is not WORDS else 1 + int(chance.random() * 2)
    return " ".join(_pick(choices, chance) for _ in range(num_words))


def _texts(parameter: Parameter) -> tuple[str, ...]:
    return _OF_FORMAT.get(wanted_format(parameter), WORDS[:4])


def _edges(parameter: Parameter, *, is_integer: bool) -> tuple[float, ...]:
    """Return values near the bounds, for bounds that the usual numbers are outside of."""
    found: list[float] = []
    if parameter.minimum is not None:
        found.append(math.ceil(parameter.minimum) if is_integer else parameter.minimum)
    if parameter.maximum is not None:
        found.append(math.floor(parameter.maximum) if is_integer else parameter.maximum)
    return tuple(number for number in found if math.isfinite(number))


def _pick(choices: Sequence[Any], chance: Random) -> Any:
    if not choices:
        raise LookupError("no value to draw from")
    return choices[int(chance.random() * len(choices))]
