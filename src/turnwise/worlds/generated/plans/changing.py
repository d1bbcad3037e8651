"""Plans that change something: found first, then changed, exactly as the request says."""

from turnwise.types import Answer, answer_of
from turnwise.worlds.generated.domain import Kind
from turnwise.worlds.generated.plans.steps import (
    change,
    find,
    learn_places,
    new_price,
    only,
    part_of_name,
    price_of,
    read_list,
)
from turnwise.worlds.generated.rehearsal import Rehearsal, Unfit, answer_for
from turnwise.worlds.generated.vocabulary import an_address, cities, plural, spoken, words

DONE = "Answer with the word done."


def ask_for_price(r: Rehearsal, name: str, value: object) -> str:
    thing, price = r.world.domain.entities["thing"], price_of(r)
    return r.say(
        "Set the {w} of the {n} {x} to {v}.",
        "Change the {w} of {x} to {v}; it is one of the {m}.",
        "The {w} of the {n} {x} should be {v} from now on.",
        w=spoken(price.name),
        n=spoken(thing.noun),
        m=spoken(plural(thing.noun)),
        x=name,
        v=value,
    )


def set_price(r: Rehearsal) -> None:
    """Change the price of a thing that is named by a part of its name."""
    price = price_of(r)
    row, part = part_of_name(r, r.world.domain.entities["thing"])
    value = new_price(r, row[price.name])
    find(r, "thing", part)
    change(r, "thing", row, price.name, value)
    message = ask_for_price(r, part, value)
    r.finish(f"{message} {only(r, f'new {spoken(price.name)}')}", answer_for(price, value), str(value))


def set_flag(r: Rehearsal) -> None:
    """Turn a flag, asked for by what it means: back in service, where the field says out_of_service."""
    entity = r.world.domain.entities[r.stream.pick(("thing", "person"))]
    flags = [field for field in entity.of_kind(Kind.BOOLEAN) if field.opposite and field.name != "verified"]
    if not flags:
        raise Unfit("no flag has an opposite")
    flag = r.stream.pick(flags)
    row, part = part_of_name(r, entity)
    value = not row[flag.name]
    find(r, entity.key, part)
    change(r, entity.key, row, flag.name, value)
    message = r.say(
        "From now on the {n} {x} is {s}: enter that.",
        "Please mark {x} ({n}) as {s}.",
        n=spoken(entity.noun),
        x=part,
        s=spoken(flag.name) if value else flag.opposite,
    )
    r.finish(f"{message} {DONE}", Answer("done"), "done")


def set_address(r: Rehearsal) -> None:
    """Change a person's address, an object of several parts."""
    person = r.world.domain.entities["person"]
    row, part = part_of_name(r, person)
    address = an_address(r.stream, r.stream.pick(cities()))
    find(r, "person", part)
    change(r, "person", row, "address", address)
    message = r.say(
        "{x} has moved to {street}, {city}; the postcode is {postcode}. Update our {m}.",
        "New address of the {n} {x}: {street}, {postcode} {city}. Enter it, please.",
        x=part,
        n=spoken(person.noun),
        m=spoken(plural(person.noun)),
        **address,
    )
    r.finish(f"{message} {DONE}", Answer("done"), "done")


def set_tags(r: Rehearsal) -> None:
    """Replace the list of tags of a thing."""
    thing = r.world.domain.entities["thing"]
    row, part = part_of_name(r, thing)
    tags = r.stream.shuffled(words()["tag"])[: r.stream.integer(1, 3)]
    if sorted(tags) == sorted(row["tags"]):
        raise Unfit("it has these tags")
    find(r, "thing", part)
    change(r, "thing", row, "tags", tags)
    message = r.say(
        "Tag the {n} {x} with {t}, in this order, and nothing else.",
        "The tags of {x} ({n}) should be exactly {t}, in this order.",
        n=spoken(thing.noun),
        x=part,
        t=", ".join(tags),
    )
    r.finish(f"{message} {DONE}", Answer("done"), "done")


def set_all(r: Rehearsal) -> None:
    """Change the price of all things of a category at a place."""
    theme, thing, price = r.world.domain.theme, r.world.domain.entities["thing"], price_of(r)
    rows = list(r.state.rows("thing"))
    groups: dict[tuple[object, str], int] = {}
    for row in rows:
        key = (row[theme.place], row["category"])
        groups[key] = groups.get(key, 0) + 1
    several = [key for key, num in groups.items() if 2 <= num <= 8]
    if not several:
        raise Unfit("no place has several of a category")
    place, category = r.stream.pick(several)
    value = round(r.stream.integer(450, 19_900) / 100, 2)
    learn_places(r)
    found = read_list(r, "thing", **{theme.place: place, "category": category})
    is_parallel = r.stream.unit() < 0.5
    for number, row in enumerate(found):
        change(r, "thing", row, price.name, value, same_turn=is_parallel and number > 0)
    num = r.derive(len(found), "count", *(row["name"] for row in found))
    message = r.say(
        "Set the {w} of all {c} {m} at {p} to {v}.",
        "Every {n} at {p} whose category is {c} should have the {w} {v}.",
        w=spoken(price.name),
        c=category,
        n=spoken(thing.noun),
        m=spoken(plural(thing.noun)),
        p=r.state.tables["place"][place]["name"],  # type: ignore[index]
        v=value,
    )
    r.finish(f"{message} Answer with the number of changed entries only.", answer_of(num), str(num))


def set_if(r: Rehearsal) -> None:
    """Change the price only if another field of the thing says so: on one side it does not."""
    thing, price = r.world.domain.entities["thing"], price_of(r)
    numbers = [field for field in thing.of_kind(Kind.INTEGER, Kind.NUMBER) if field.name != price.name]
    if not numbers:
        raise Unfit("nothing to compare")
    compared = r.stream.pick(numbers)
    row, part = part_of_name(r, thing)
    value, now = new_price(r, row[price.name]), row[compared.name]
    step = 2 if compared.kind is Kind.INTEGER else 0.5
    limit = now + step * r.stream.integer(1, 4) if r.side else now - step * r.stream.integer(0, 3)
    if limit <= 0:
        raise Unfit("no limit below it")
    find(r, "thing", part)
    if not compared.is_listed:
        r.call(r.tool("get", "thing"), ref=row["id"])
    if r.side:
        change(r, "thing", row, price.name, value)
    message = r.say(
        "If the {c} of the {n} {x} is below {l}, set its {w} to {v}; otherwise change nothing.",
        "Set the {w} of {x} ({n}) to {v}, but only if its {c} is less than {l}.",
        c=spoken(compared.name),
        n=spoken(thing.noun),
        x=part,
        l=limit,
        w=spoken(price.name),
        v=value,
    )
    answer = "changed" if r.side else "unchanged"
    r.finish(f"{message} Answer changed or unchanged.", Answer(answer), answer)
