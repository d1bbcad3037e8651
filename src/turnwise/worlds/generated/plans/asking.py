"""Plans that only read: a fact of something that was named, by a part of its name or by what it is like."""

from turnwise.tasks.proof.answers import computed, is_clear
from turnwise.types import Answer, answer_of
from turnwise.worlds.generated.domain import Entity, Field, Kind
from turnwise.worlds.generated.plans.steps import (
    find,
    get_by_short_name,
    get_referred,
    learn_places,
    only,
    part_of_name,
    price_of,
    read_list,
)
from turnwise.worlds.generated.rehearsal import Rehearsal, Unfit, answer_for, spoken_value
from turnwise.worlds.generated.vocabulary import plural, spoken, words

ASKED = (Kind.NUMBER, Kind.INTEGER, Kind.BOOLEAN, Kind.ENUM, Kind.DATE)
"""Kinds of fields whose value is a short answer."""
YES_OR_NO = ("Answer yes or no.", "Just yes or no, please.")


def asked_field(r: Rehearsal, entity: Entity) -> Field:
    """Return a field that lists do not show."""
    fields = [field for field in entity.of_kind(*ASKED) if not field.is_listed]
    if not fields:
        raise Unfit("lists show every field")
    return r.stream.pick(fields)


def look_up(r: Rehearsal) -> None:
    """Ask for a field of a row that is named by a part of its name: find it, then get it."""
    entity = r.world.domain.entities[r.stream.pick(("thing", "person"))]
    row, part = part_of_name(r, entity)
    asked = asked_field(r, entity)
    find(r, entity.key, part)
    r.call(r.tool("get", entity.key), ref=row["id"])
    r.finish(
        f"{ask(r, entity, asked, part)} {_form(r, asked)}",
        answer_for(asked, row[asked.name]),
        spoken_value(asked, row[asked.name]),
    )


def by_short_name(r: Rehearsal) -> None:
    """Ask for a field by a short name that the tool refuses, so that it must be looked up."""
    entity = r.world.domain.entities[r.stream.pick(("thing", "person"))]
    row, part = part_of_name(r, entity)
    asked = asked_field(r, entity)
    get_by_short_name(r, entity.key, row, part)
    r.finish(
        f"{ask(r, entity, asked, part)} {_form(r, asked)}",
        answer_for(asked, row[asked.name]),
        spoken_value(asked, row[asked.name]),
    )


def same_for_others(r: Rehearsal) -> None:
    """Ask for a field of one row, then for the same of others."""
    entity = r.world.domain.entities[r.stream.pick(("thing", "person"))]
    asked = asked_field(r, entity)
    seen: set[object] = set()
    for place in range(r.stream.integer(2, 3)):
        row, part = part_of_name(r, entity, lambda row: row["id"] not in seen)
        seen.add(row["id"])
        find(r, entity.key, part)
        r.call(r.tool("get", entity.key), ref=row["id"])
        message = (
            r.say("And for {x}?", "The same for {x}, please.", "What about {x}?", x=part)
            if place
            else f"{ask(r, entity, asked, part)} {_form(r, asked)}"
        )
        r.finish(message, answer_for(asked, row[asked.name]), spoken_value(asked, row[asked.name]))


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
    match asked.kind:
        case Kind.BOOLEAN:
            return r.say(*YES_OR_NO)
        case Kind.NUMBER | Kind.INTEGER:
            return only(r, "number")
        case Kind.DATE:
            return only(r, "date as YYYY-MM-DD")
    return only(r, "value")


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


def count_at_place(r: Rehearsal) -> None:
    """Ask how many of a category are at a place: none on one side, some on the other."""
    theme, thing = r.world.domain.theme, r.world.domain.entities["thing"]
    rows = list(r.state.rows("thing"))
    pairs = [
        (place, category)
        for place in r.state.rows("place")
        for category in thing.field("category").values
        if any(row[theme.place] == place["id"] and row["category"] == category for row in rows)
        is bool(r.side)
    ]
    if not pairs:
        raise Unfit("no such place and category")
    place, category = r.stream.pick(pairs)
    learn_places(r)
    found = read_list(r, "thing", **{theme.place: place["id"], "category": category})
    r.derive(len(found), "count", *(row["name"] for row in found))
    message = r.say(
        "How many {c} {m} are there at {p}?",
        "Count the {m} at {p} whose category is {c}.",
        c=category,
        m=spoken(plural(thing.noun)),
        p=place["name"],
    )
    r.finish(f"{message} {only(r, 'number')}", answer_of(len(found)), str(len(found)))


def exists(r: Rehearsal) -> None:
    """Ask whether there is a thing of this name: on one side there is not."""
    thing = r.world.domain.entities["thing"]
    if r.side:
        name = str(r.pick_row("thing")["name"])
    else:
        taken = {row["name"] for row in r.state.rows("thing")}
        nouns = r.world.domain.theme.nouns
        free = [name for word in words()["word"] for noun in nouns if (name := f"{word} {noun}") not in taken]
        name = r.stream.pick(free)
    find(r, "thing", name)
    message = r.say(
        "Do we have a {n} called {x}?",
        "Is there a {n} with the name {x}?",
        n=spoken(thing.noun),
        x=name,
    )
    answer = "yes" if r.side else "no"
    r.finish(f"{message} {r.say(*YES_OR_NO)}", Answer(answer), answer)


def extreme(r: Rehearsal) -> None:
    """Ask for a field of the thing at a place whose price is highest or lowest."""
    theme, thing, price = r.world.domain.theme, r.world.domain.entities["thing"], price_of(r)
    asked = asked_field(r, thing)
    place = r.pick_row("place")
    highest = r.stream.unit() < 0.5
    learn_places(r)
    rows = read_list(r, "thing", **{theme.place: place["id"]})
    rows.sort(key=lambda row: row[price.name], reverse=highest)
    if len(rows) < 2 or rows[0][price.name] == rows[1][price.name]:
        raise Unfit("no single extreme")
    r.call(r.tool("get", "thing"), ref=rows[0]["id"])
    name = r.say(
        "with the {h} {w} at {p}",
        "at {p} that has the {h} {w}",
        h="highest" if highest else "lowest",
        w=spoken(price.name),
        p=place["name"],
    )
    what, noun = spoken(asked.name), spoken(thing.noun)
    message = (
        f"Take the {noun} {name}: is it {what}?"
        if asked.kind is Kind.BOOLEAN
        else f"What is the {what} of the {noun} {name}?"
    )
    value = rows[0][asked.name]
    r.finish(f"{message} {_form(r, asked)}", answer_for(asked, value), spoken_value(asked, value))


def of_record(r: Rehearsal) -> None:
    """Ask for a field of the person that a record is for: get the record, then the person."""
    theme, person = r.world.domain.theme, r.world.domain.entities["person"]
    record = r.pick_row("record")
    row = r.state.tables["person"][record[theme.person]]
    asked = asked_field(r, person)
    r.call(r.tool("get", "record"), ref=record["id"])
    get_referred(r, "person", row["id"])
    what, noun = spoken(asked.name), spoken(theme.person)
    if asked.kind is Kind.BOOLEAN:
        message = f"Is the {noun} of {spoken(theme.record)} {record['id']} {what}?"
    else:
        message = r.say(
            "What is the {w} of the {n} that {o} {i} is for?",
            "{o} {i}: I need the {w} of its {n}.",
            w=what,
            n=noun,
            o=spoken(theme.record),
            i=record["id"],
        )
    value = row[asked.name]
    r.finish(f"{message} {_form(r, asked)}", answer_for(asked, value), spoken_value(asked, value))


def bill(r: Rehearsal) -> None:
    """Ask what a record comes to: the count of each thing in it times its price."""
    theme, price = r.world.domain.theme, price_of(r)
    record = r.pick_row("record")
    lines = record.get("items") or [{"thing": record[theme.thing], "count": record[theme.count]}]
    r.call(r.tool("get", "record"), ref=record["id"])
    for line in lines:
        get_referred(r, "thing", line["thing"])
    amounts = []
    for line in lines:
        each = r.state.tables["thing"][line["thing"]][price.name]
        amounts.append(r.derive(round(each * line["count"], 2), "product", each, line["count"]))
    total = r.derive(round(sum(amounts), 2), "sum", *amounts)
    message = r.say(
        "What does {o} {i} come to, if each {n} costs its {w} and the {c} are counted?",
        "Add up {o} {i}: {c} times {w}, over every {n} in it.",
        o=spoken(theme.record),
        i=record["id"],
        n=spoken(theme.thing),
        w=spoken(price.name),
        c=spoken(theme.count),
    )
    r.finish(f"{message} {only(r, 'number')}", computed(total), f"{total:.2f}")


def in_other_currency(r: Rehearsal) -> None:
    """Ask for a price in a currency that only the service's own rates give."""
    thing, price = r.world.domain.entities["thing"], price_of(r)
    convert, base = r.tool("convert"), r.world.setting.facts["currency"]
    others = [name for name in r.world.setting.rates if name != base]
    if not others:
        raise Unfit("there is one currency")
    wanted = r.stream.pick(others)
    row, part = part_of_name(r, thing)
    find(r, "thing", part)
    said = ""
    if any(tool.operation.key == "tell_facts" for tool in r.world.tools) and r.stream.unit() < 0.6:
        r.call(r.tool("tell_facts"))
    else:
        said = f" Prices are in {base}."
    outcome = r.call(convert, amount=row[price.name], from_=base, to=wanted)
    assert outcome.values is not None
    amount = outcome.values["amount"]
    if not is_clear(amount + 0.001):
        raise Unfit("the amount is too small")
    message = r.say(
        "What is the {w} of the {n} {x} in {c}?",
        "Tell me the {w} of {x} in {c}; it is one of our {m}.",
        w=spoken(price.name),
        n=spoken(thing.noun),
        m=spoken(plural(thing.noun)),
        x=part,
        c=wanted,
    )
    r.finish(f"{message}{said} {only(r, 'number')}", computed(amount), str(amount))


def by_price(r: Rehearsal) -> None:
    """Ask which thing has exactly this price: a list of several pages has it once."""
    thing, price = r.world.domain.entities["thing"], price_of(r)
    tool = r.tool("list", "thing")
    rows = read_list(r, "thing")
    page_size = next(param.default for param in tool.operation.params if param.name == "limit")
    prices = [row[price.name] for row in rows]
    fits = [row for row in rows if prices.count(row[price.name]) == 1]
    if len(rows) <= page_size or not fits:
        raise Unfit("the list has one page")
    row = r.stream.pick(fits)
    message = r.say(
        "Which {n} has a {w} of exactly {v}?",
        "One of our {m} has the {w} {v}. Which?",
        n=spoken(thing.noun),
        m=spoken(plural(thing.noun)),
        w=spoken(price.name),
        v=row[price.name],
    )
    r.finish(f"{message} {only(r, 'name')}", Answer(row["name"]), row["name"])


def by_flag(r: Rehearsal) -> None:
    """Ask for a flag in the sense that is not its name: in service, where the field says out_of_service."""
    entity = r.world.domain.entities[r.stream.pick(("thing", "person"))]
    flags = [field for field in entity.of_kind(Kind.BOOLEAN) if field.opposite]
    if not flags:
        raise Unfit("no flag has an opposite")
    flag = r.stream.pick(flags)
    row, part = part_of_name(r, entity)
    find(r, entity.key, part)
    r.call(r.tool("get", entity.key), ref=row["id"])
    message = r.say(
        "Is the {n} {x} {o}?",
        "I want to know if {x} is {o} (a {n} of ours).",
        n=spoken(entity.noun),
        x=part,
        o=flag.opposite,
    )
    answer = "no" if row[flag.name] else "yes"
    r.finish(f"{message} {r.say(*YES_OR_NO)}", Answer(answer), answer)


def difference(r: Rehearsal) -> None:
    """Ask for two prices, then by how much they differ: what was shown is enough."""
    thing, price = r.world.domain.entities["thing"], price_of(r)
    row, part = part_of_name(r, thing)
    other, its_part = part_of_name(r, thing, lambda each: each["id"] != row["id"])
    dear, cheap = sorted((row, other), key=lambda each: each[price.name], reverse=True)
    if dear[price.name] == cheap[price.name]:
        raise Unfit("both cost the same")
    find(r, "thing", part)
    r.call(r.tool("find", "thing"), same_turn=True, query=its_part)
    what = spoken(price.name)
    message = r.say(
        "Which has the higher {w}, {x} or {y}?",
        "Compare the {n} entries {x} and {y}: whose {w} is higher?",
        w=what,
        x=part,
        y=its_part,
        n=spoken(thing.noun),
    )
    r.finish(f"{message} {only(r, 'name')}", Answer(dear["name"]), dear["name"])
    gap = r.derive(
        round(dear[price.name] - cheap[price.name], 2), "difference", dear[price.name], cheap[price.name]
    )
    r.finish(f"{r.say('And by how much?', 'By how much?')} {only(r, 'number')}", computed(gap), f"{gap:.2f}")
