"""The words that worlds are made of, and values that agree within a row: a city with its country and code."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.resources import files

from turnwise.worlds.stream import Stream

FIRST_DAY = date(2026, 3, 2)
"""The earliest date in any world."""


@dataclass(frozen=True, slots=True)
class City:
    name: str
    country: str
    code: str
    currency: str


@dataclass(frozen=True, slots=True)
class Theme:
    """The nouns of a domain: where things are, what they are, who uses them, and what is recorded of it."""

    name: str
    place: str
    thing: str
    person: str
    record: str
    count: str
    price: str
    categories: tuple[str, ...]
    statuses: tuple[str, ...]
    nouns: tuple[str, ...]


@functools.cache
def themes() -> tuple[Theme, ...]:
    return tuple(
        Theme(*row[:7], *(tuple(column.split(",")) for column in row[7:]))  # type: ignore[arg-type]
        for row in _table("domains.psv")
    )


@functools.cache
def cities() -> tuple[City, ...]:
    return tuple(City(*row) for row in _table("cities.psv"))


@functools.cache
def words() -> Mapping[str, tuple[str, ...]]:
    """Return the lists of words by name: `first` and `last` names, and so on."""
    lines = (line.split(": ", 1) for line in _text("words.txt").splitlines())
    return {name: tuple(listed.split()) for name, listed in lines}


def a_date(stream: Stream, earliest: date = FIRST_DAY, days: int = 200) -> date:
    return earliest + timedelta(days=stream.below(days))


def an_address(stream: Stream, city: City) -> dict[str, object]:
    street = f"{stream.integer(1, 180)} {stream.pick(words()['street'])} Street"
    return {"street": street, "city": city.name, "postcode": f"{city.code}-{stream.integer(1000, 9899)}"}


def plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def spoken(name: str) -> str:
    """Return a field's or noun's name as a person says it."""
    return name.replace("_", " ")


def _table(name: str) -> list[list[str]]:
    return [line.split("|") for line in _text(name).splitlines()[1:]]


def _text(name: str) -> str:
    return files("turnwise.worlds.generated").joinpath(f"data/{name}").read_text("utf-8")
