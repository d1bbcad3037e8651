"""Which operations a world offers: drawn per world, so that two worlds of one theme differ."""

from collections.abc import Iterator

from turnwise.worlds.generated import operations as do
from turnwise.worlds.generated.domain import Domain, Entity, Field, Kind
from turnwise.worlds.generated.operations import Operation, Param
from turnwise.worlds.stream import Stream


def draw_operations(stream: Stream, domain: Domain, currencies: tuple[str, ...]) -> tuple[Operation, ...]:
    entities = domain.entities
    drawn = [operation for entity in entities.values() for operation in _reading(stream, entity)]
    drawn += _thing_changes(stream, entities["thing"])
    drawn += _person_changes(stream, domain)
    drawn += _record_changes(stream, domain)
    if stream.unit() < 0.7:
        drawn.append(Operation("convert", None, _conversion(currencies), do.convert))
    if stream.unit() < 0.8:
        drawn.append(Operation("tell_facts", None, (), do.tell_facts))
    if domain.rules.needs_session:
        drawn.append(Operation("open_session", None, (), do.open_session))
    return tuple(stream.shuffled(drawn))


def _reading(stream: Stream, entity: Entity) -> Iterator[Operation]:
    paging = (
        Param("limit", Kind.INTEGER, False, default=stream.pick((5, 8, 10))),
        Param("page", Kind.INTEGER, False, default=1),
    )
    if entity.key == "place":
        yield (
            Operation("list", entity, (), do.list_rows)
            if stream.unit() < 0.6
            else Operation("list", entity, paging, do.list_rows)
        )
    else:
        filters = tuple(
            Param(field.name, field.kind, False, field.values, target=field.target, group="filter")
            for field in do.filters_of(entity)
            if field.name != "verified"
        )
        yield Operation("list", entity, (*filters, *_ordering(stream, entity), *paging), do.list_rows)
    yield Operation("get", entity, (_ref(entity),), do.get_row)
    if entity.key in ("thing", "person"):
        yield Operation("find", entity, (Param("query", Kind.TEXT),), do.find_rows)


def _ordering(stream: Stream, entity: Entity) -> tuple[Param, ...]:
    numbers = tuple(field.name for field in entity.of_kind(Kind.NUMBER, Kind.INTEGER) if field.is_listed)
    if entity.key != "thing" or not numbers:
        return ()
    highest = Param(f"max_{numbers[0]}", Kind.NUMBER, False, group="filter")
    if stream.unit() < 0.5:
        return (highest,)
    descending = Param("descending", Kind.BOOLEAN, False, default=False)
    return (highest, Param("sort_by", Kind.ENUM, False, numbers), descending)


def _ref(entity: Entity) -> Param:
    return Param("ref", Kind.REF, target=entity.key)


def _setting(field: Field, *, is_required: bool = True) -> Param:
    return Param(field.name, field.kind, is_required, field.values, target=field.target, group="changes")


def _thing_changes(stream: Stream, thing: Entity) -> Iterator[Operation]:
    """Yield one tool that changes any field, or one for each field."""
    fields = [field for field in thing.fields if field.name not in ("id", "name", "arrival_date", "rating")]
    fields.sort(key=lambda field: field.kind not in (Kind.ENUM, Kind.NUMBER, Kind.BOOLEAN))
    if stream.unit() < 0.4:
        params = (_ref(thing), *(_setting(field, is_required=False) for field in fields))
        yield Operation("update", thing, params, do.set_fields, is_read_only=False)
        return
    for field in (*fields[:3], *stream.shuffled(fields[3:])[:2]):
        params = (_ref(thing), _setting(field))
        yield Operation("set", thing, params, do.set_fields, is_read_only=False, field=field.name)


def _person_changes(stream: Stream, domain: Domain) -> Iterator[Operation]:
    person = domain.entities["person"]
    for name in (
        "address",
        *(field.name for field in person.of_kind(Kind.BOOLEAN) if field.name != "verified"),
    ):
        params = (_ref(person), _setting(person.field(name)))
        yield Operation("set", person, params, do.set_fields, is_read_only=False, field=name)
    if domain.rules.needs_verification:
        yield Operation("verify", person, (_ref(person),), do.verify, is_read_only=False)


def _record_changes(stream: Stream, domain: Domain) -> Iterator[Operation]:
    record, theme = domain.entities["record"], domain.theme
    new = [Param(theme.person, Kind.REF, target="person", group="body")]
    if domain.rules.has_lines:
        new.append(Param("items", Kind.LINES, group="body"))
    else:
        new += [
            Param(theme.thing, Kind.REF, target="thing", group="body"),
            Param(theme.count, Kind.INTEGER, group="body"),
        ]
    new += [
        Param("start", Kind.DATE, group="body"),
        Param("note", Kind.TEXT, False, group="body"),
    ]
    yield Operation("create", record, tuple(new), do.create_record, is_read_only=False)
    statuses = Param("status", Kind.ENUM, values=theme.statuses)
    yield Operation("advance", record, (_ref(record), statuses), do.advance, is_read_only=False)
    if stream.unit() < 0.8:
        reason = Param("reason", Kind.TEXT, False)
        yield Operation("cancel", record, (_ref(record), reason), do.cancel, is_read_only=False)


def _conversion(currencies: tuple[str, ...]) -> tuple[Param, ...]:
    return (
        Param("amount", Kind.NUMBER),
        Param("from", Kind.ENUM, values=currencies),
        Param("to", Kind.ENUM, values=currencies),
    )
