"""Plans that change something: found first, then changed, exactly as the request says."""

from turnwise.worlds.generated.domain import Kind
from turnwise.worlds.generated.plans.asking import only, part_of_name
from turnwise.worlds.generated.rehearsal import Rehearsal, answer_for
from turnwise.worlds.generated.state import Row
from turnwise.worlds.generated.tools import WorldTool
from turnwise.worlds.generated.vocabulary import spoken


def setter(r: Rehearsal, entity: str, field: str) -> WorldTool:
    """Return the tool that sets this field: its own, or the one that changes any."""
    own = [
        tool for tool in r.world.tools if tool.operation.key == "update" and tool.operation.entity is not None
    ]
    if entity == "thing" and own:
        return own[0]
    return r.tool("set", entity, field)


def new_price(r: Rehearsal, old: float) -> float:
    """Return another price, near the old one."""
    return round(max(1.0, old + r.stream.integer(1, 40) * r.stream.pick((-0.25, 0.25, 0.5))) + 0.05, 2)


def set_price(r: Rehearsal) -> None:
    """Change the price of a thing that is named by a part of its name."""
    thing = r.world.domain.entities["thing"]
    row, part = part_of_name(r, thing)
    price = thing.of_kind(Kind.NUMBER)[0]
    value = new_price(r, row[price.name])
    r.call(r.tool("find", "thing"), query=part)
    change(r, row, price.name, value)
    message = r.say(
        "Set the {w} of the {n} {x} to {v}.",
        "Change the {w} of {x} to {v}; it is one of the {n} entries.",
        "The {w} of the {n} {x} should be {v} from now on.",
        w=spoken(price.name),
        n=spoken(thing.noun),
        x=part,
        v=value,
    )
    r.finish(f"{message} {only(r, f'new {spoken(price.name)}')}", answer_for(price, value), str(value))


def change(r: Rehearsal, row: Row, field: str, value: object) -> None:
    """Make the change; where a session is needed, open it first."""
    open_session(r)
    r.call(setter(r, "thing", field), **{"ref": row["id"], field: value})


def open_session(r: Rehearsal) -> None:
    if r.world.domain.rules.needs_session and not r.state.is_open:
        r.call(r.tool("open_session"))
