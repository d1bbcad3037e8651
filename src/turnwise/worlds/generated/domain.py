"""A domain: entities with typed fields, and the rules that its tools enforce, drawn from building blocks."""

from dataclasses import dataclass
from enum import StrEnum

from turnwise.worlds.generated.vocabulary import Theme, themes
from turnwise.worlds.stream import Stream


class Kind(StrEnum):
    """The type of a field's value."""

    ID = "id"
    NAME = "name"
    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    ENUM = "enum"
    DATE = "date"
    LIST = "list"
    OBJECT = "object"
    LINES = "lines"
    """A list of objects, each a thing and how many of it."""
    REF = "ref"
    """A row of another entity."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    kind: Kind
    values: tuple[str, ...] = ()
    """ENUM: what it may be."""
    target: str = ""
    """REF: the key of the entity."""
    is_listed: bool = False
    """Whether lists show it; the tool that gets one row shows every field."""
    opposite: str = ""
    """BOOLEAN: what False means, in words; `name` says what True means."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A table: `key` is its role (place, thing, person, record), `noun` its name in this domain."""

    key: str
    noun: str
    fields: tuple[Field, ...]

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    def of_kind(self, *kinds: Kind) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.kind in kinds)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the tools enforce."""

    needs_session: bool
    """Changes need an open session, which only the error says."""
    needs_verification: bool
    """A person must be verified before anything is recorded for them."""
    max_open: int
    """The most records of one person that are not in the last status."""
    is_forward_only: bool
    """A record's status moves to the next one only."""
    has_lines: bool
    """A record lists several things, each with a count, instead of one."""


@dataclass(frozen=True, slots=True)
class Domain:
    theme: Theme
    entities: dict[str, Entity]
    rules: Rules


_POSITIVE = (("available", "unavailable"), ("insured", "not insured"), ("featured", "not featured"))
_NEGATIVE = (("out_of_service", "in service"), ("blocked", "not blocked"), ("hidden", "visible"))
_PERSON_FLAGS = (("subscribed", "not subscribed"), ("opted_out", "not opted out"), ("suspended", "active"))
_TIERS = (("bronze", "silver", "gold"), ("basic", "plus", "premium"), ("A", "B", "C"))


def draw_domain(stream: Stream, number: int) -> Domain:
    """Return a domain: the theme follows from the world's number, its structure from the stream."""
    theme = themes()[number % len(themes())]
    rules = Rules(
        needs_session=stream.unit() < 0.4,
        needs_verification=stream.unit() < 0.4,
        max_open=stream.integer(2, 4),
        is_forward_only=stream.unit() < 0.9,
        has_lines=stream.unit() < 0.4,
    )
    drawn = (
        _place(stream, theme),
        _thing(stream, theme),
        _person(stream, theme, rules),
        _record(theme, rules),
    )
    return Domain(theme, {entity.key: entity for entity in drawn}, rules)


def _flag(stream: Stream, pairs: tuple[tuple[str, str], ...]) -> Field:
    name, opposite = stream.pick(pairs)
    return Field(name, Kind.BOOLEAN, opposite=opposite, is_listed=stream.unit() < 0.3)


def _some(stream: Stream, fields: tuple[Field, ...], share: float) -> tuple[Field, ...]:
    return tuple(field for field in fields if stream.unit() < share)


def _place(stream: Stream, theme: Theme) -> Entity:
    return Entity(
        "place",
        theme.place,
        (
            Field("id", Kind.ID, is_listed=True),
            Field("name", Kind.NAME, is_listed=True),
            Field("city", Kind.TEXT, is_listed=stream.unit() < 0.5),
            Field("country", Kind.TEXT),
            Field("country_code", Kind.TEXT),
            *_some(stream, (Field("capacity", Kind.INTEGER), Field("opening_date", Kind.DATE)), 0.7),
        ),
    )


def _thing(stream: Stream, theme: Theme) -> Entity:
    optional = (
        Field("stock", Kind.INTEGER, is_listed=stream.unit() < 0.5),
        Field("rating", Kind.NUMBER),
        Field("arrival_date", Kind.DATE),
    )
    return Entity(
        "thing",
        theme.thing,
        (
            Field("id", Kind.ID, is_listed=True),
            Field("name", Kind.NAME, is_listed=True),
            Field("category", Kind.ENUM, theme.categories, is_listed=True),
            Field(theme.price, Kind.NUMBER, is_listed=True),
            Field(theme.place, Kind.REF, target="place", is_listed=stream.unit() < 0.5),
            _flag(stream, _POSITIVE if stream.unit() < 0.5 else _NEGATIVE),
            *_some(stream, optional, 0.6),
            Field("tags", Kind.LIST),
        ),
    )


def _person(stream: Stream, theme: Theme, rules: Rules) -> Entity:
    verified = (Field("verified", Kind.BOOLEAN, opposite="not verified"),)
    return Entity(
        "person",
        theme.person,
        (
            Field("id", Kind.ID, is_listed=True),
            Field("name", Kind.NAME, is_listed=True),
            Field("email", Kind.TEXT),
            *_some(stream, (Field("tier", Kind.ENUM, stream.pick(_TIERS), is_listed=True),), 0.6),
            _flag(stream, _PERSON_FLAGS),
            *(verified if rules.needs_verification else ()),
            Field("joining_date", Kind.DATE),
            Field("address", Kind.OBJECT),
        ),
    )


def _record(theme: Theme, rules: Rules) -> Entity:
    single = (Field(theme.thing, Kind.REF, target="thing", is_listed=True), Field(theme.count, Kind.INTEGER))
    return Entity(
        "record",
        theme.record,
        (
            Field("id", Kind.ID, is_listed=True),
            Field(theme.person, Kind.REF, target="person", is_listed=True),
            *((Field("items", Kind.LINES),) if rules.has_lines else single),
            Field("status", Kind.ENUM, theme.statuses, is_listed=True),
            Field("start", Kind.DATE),
            Field("end", Kind.DATE),
            Field("note", Kind.TEXT),
        ),
    )
