"""Plans that only read: a fact of something that was named, by a part of its name or by what it is like."""

from turnwise.types import answer_of
from turnwise.worlds.generated.domain import Entity, Field, Kind
from turnwise.worlds.generated.rehearsal import Rehearsal, Unfit, answer_for, spoken_value
from turnwise.worlds.generated.state import Row
from turnwise.worlds.generated.vocabulary import plural, spoken

ASKED = (Kind.NUMBER, Kind.INTEGER, Kind.BOOLEAN, Kind.ENUM, Kind.DATE)
"""Kinds of fields whose value is a short answer."""


def only(r: Rehearsal, what: str) -> str:
    """Return the request for a short answer."""
    return r.say("Answer with the {w} only.", "Reply with just the {w}.", "Only the {w}, please.", w=what)


def part_of_name(r: Rehearsal, entity: Entity) -> tuple[Row, str]:
    """Return a row and a part of its name that no other row's name has."""
    row = r.pick_row(entity.key)
    words = str(row["name"]).split()
    part = words[0] if entity.key == "thing" else words[-1]
    if sum(part.casefold() in other["name"].casefold() for other in r.state.rows(entity.key)) > 1:
        raise Unfit(f"{part!r} is in more than one name")
    return row, part


def look_up(r: Rehearsal) -> None:
    """Ask for a field of a row that is named by a part of its name: find it, then get it."""
    entity = r.world.domain.entities[r.stream.pick(("thing", "person"))]
    row, part = part_of_name(r, entity)
    fields = [field for field in entity.of_kind(*ASKED) if not field.is_listed]
    if not fields:
        raise Unfit("lists show every field")
    asked = r.stream.pick(fields)
    r.call(r.tool("find", entity.key), query=part)
    r.call(r.tool("get", entity.key), ref=row["id"])
    r.finish(
        f"{ask(r, entity, asked, part)} {_form(r, asked)}",
        answer_for(asked, row[asked.name]),
        spoken_value(asked, row[asked.name]),
    )


def ask(r: Rehearsal, entity: Entity, asked: Field, name: str) -> str:
    noun, what = spoken(entity.noun), spoken(asked.name)
    if asked.kind is Kind.BOOLEAN:
        return r.say(
            "Is the {n} {x} {w}?",
            "I need to know whether {x} ({n}) is {w}.",
            "{x}, the {n}: {w} or not?",
            n=noun,
            w=what,
            x=name,
        )
    return r.say(
        "What is the {w} of the {n} {x}?",
        "Tell me the {w} of {x}, one of our {m}.",
        "I need the {w} for the {n} {x}.",
        w=what,
        n=noun,
        m=spoken(plural(entity.noun)),
        x=name,
    )


def _form(r: Rehearsal, asked: Field) -> str:
    if asked.kind is Kind.BOOLEAN:
        return r.say("Answer yes or no.", "Just yes or no, please.")
    return only(
        r,
        "number"
        if asked.kind in (Kind.NUMBER, Kind.INTEGER)
        else "date as YYYY-MM-DD"
        if asked.kind is Kind.DATE
        else "value",
    )


def count_listed(r: Rehearsal) -> None:
    """Ask how many rows there are of a category: one list says it."""
    thing = r.world.domain.entities["thing"]
    category = thing.field("category")
    value = r.stream.pick(category.values)
    outcome = r.call(r.tool("list", "thing"), category=value)
    if not outcome.total:
        raise Unfit("the list is empty")
    if outcome.num_pages == 1:
        r.derive(outcome.total, "count", *(row["name"] for row in outcome.rows))
    message = r.say(
        "How many {m} of the category {v} are there?",
        "Count our {m} in category {v}.",
        m=spoken(plural(thing.noun)),
        v=value,
    )
    r.finish(f"{message} {only(r, 'number')}", answer_of(outcome.total), str(outcome.total))
