"""The rows of a world: the start state that every episode copies, and what an episode changes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from turnwise.worlds.generated.domain import Domain, Entity, Field, Kind
from turnwise.worlds.generated.vocabulary import FIRST_DAY, City, a_date, an_address, cities, words
from turnwise.worlds.stream import Stream

Row = Mapping[str, Any]
"""Values by field; a reference is the id of a row. Rows are replaced, never changed."""
NewId = Callable[[str, int], str | int]
"""Returns the id of an entity's row by its number, in the style of the world."""


@dataclass(slots=True)
class State:
    """The rows by entity and id; `is_open`: whether a session was opened."""

    tables: dict[str, dict[str | int, Row]]
    is_open: bool = False

    def copy(self) -> "State":
        return State({key: dict(rows) for key, rows in self.tables.items()}, self.is_open)

    def rows(self, entity: str) -> Iterator[Row]:
        return iter(self.tables[entity].values())

    def change(self, entity: str, row: Row, **values: Any) -> Row:
        changed = {**row, **values}
        self.tables[entity][row["id"]] = changed
        return changed


@dataclass(slots=True)
class _Filling:
    """The rows that are being drawn."""

    domain: Domain
    stream: Stream
    new_id: NewId
    state: State = field(default_factory=lambda: State({}))

    def fill(self, key: str, count: int) -> None:
        entity = self.domain.entities[key]
        rows = self.state.tables[key] = {}
        names = self._names(entity, count)
        for number in range(count):
            drawn = {"id": self.new_id(key, number)}
            city = self.stream.pick(cities())
            for one in entity.fields[1:]:
                drawn[one.name] = self._value(entity, one, names[number], city, drawn)
            rows[drawn["id"]] = drawn

    def _names(self, entity: Entity, count: int) -> list[str]:
        """Return names that differ; two things may share their first word, so that a search finds both."""
        stream, lists = self.stream, words()
        noun = entity.noun.replace("_", " ").title()
        names: dict[str, None] = {}
        while len(names) < count:
            match entity.key:
                case "place":
                    names[f"{stream.pick(lists['word'])} {noun}"] = None
                case "thing":
                    names[f"{stream.pick(lists['word'])} {stream.pick(self.domain.theme.nouns)}"] = None
                case "person":
                    names[f"{stream.pick(lists['first'])} {stream.pick(lists['last'])}"] = None
                case _:
                    names[str(len(names))] = None
        return list(names)

    def _value(self, entity: Entity, one: Field, name: str, city: City, row: Row) -> Any:
        stream, tables = self.stream, self.state.tables
        made: Mapping[Kind, Callable[[], Any]] = {
            Kind.NAME: lambda: name,
            Kind.TEXT: lambda: self._text(one.name, name, city),
            Kind.INTEGER: lambda: stream.integer(2, 60),
            Kind.NUMBER: lambda: stream.integer(10, 50) / 10 if one.name == "rating" else self._price(),
            Kind.BOOLEAN: lambda: stream.unit() < 0.5,
            Kind.ENUM: lambda: stream.pick(one.values),
            Kind.DATE: lambda: self._date(one.name, row).isoformat(),
            Kind.LIST: lambda: stream.shuffled(words()["tag"])[: stream.below(4)],
            Kind.OBJECT: lambda: an_address(stream, city),
            Kind.REF: lambda: stream.pick(list(tables[one.target])),
            Kind.LINES: lambda: [
                {"thing": thing, "count": stream.integer(1, 6)}
                for thing in stream.shuffled(list(tables["thing"]))[: stream.integer(1, 3)]
            ],
        }
        return made[one.kind]()

    def _price(self) -> float:
        return self.stream.integer(450, 19_900) / 100

    def _date(self, field_name: str, row: Row) -> date:
        if field_name == "end":
            return a_date(self.stream, date.fromisoformat(row["start"]) + timedelta(days=1), 30)
        return a_date(self.stream, FIRST_DAY - timedelta(days=300))

    def _text(self, field_name: str, name: str, city: City) -> str:
        match field_name:
            case "city":
                return city.name
            case "country":
                return city.country
            case "country_code":
                return city.code
            case "email":
                return f"{name.lower().replace(' ', '.')}@mail.example"
        return ""


def draw_state(stream: Stream, domain: Domain, new_id: NewId) -> State:
    """Return the start state: a few places, more things and people, and records of them."""
    filling = _Filling(domain, stream, new_id)
    for key, low, high in (("place", 3, 6), ("thing", 12, 28), ("person", 8, 18), ("record", 8, 20)):
        filling.fill(key, stream.integer(low, high))
    return filling.state
