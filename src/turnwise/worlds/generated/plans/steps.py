"""Steps that plans share: find what a request names, read a list to its end, make a change."""

from collections.abc import Callable
from typing import Any

from turnwise.worlds.generated.domain import Entity, Field, Kind
from turnwise.worlds.generated.operations import Outcome, Refusal
from turnwise.worlds.generated.rehearsal import Rehearsal, Unfit
from turnwise.worlds.generated.state import Row
from turnwise.worlds.generated.style import References
from turnwise.worlds.generated.tools import WorldTool

_MAX_CURES = 3
"""Prerequisites that one call may have."""


def only(r: Rehearsal, what: str) -> str:
    """Return the request for a short answer."""
    return r.say("Answer with the {w} only.", "Reply with just the {w}.", "Only the {w}, please.", w=what)


def part_of_name(
    r: Rehearsal, entity: Entity, fits: Callable[[Row], bool] = lambda _: True
) -> tuple[Row, str]:
    """Return a row and a part of its name that no other row's name has."""
    names = [str(row["name"]).casefold() for row in r.state.rows(entity.key)]

    def part_of(row: Row) -> str:
        words = str(row["name"]).split()
        return words[0] if entity.key == "thing" else words[-1]

    def is_only(part: str) -> bool:
        return sum(part.casefold() in name for name in names) == 1

    row = r.pick_row(entity.key, lambda row: fits(row) and is_only(part_of(row)))
    return row, part_of(row)


def find(r: Rehearsal, entity: str, part: str) -> Outcome:
    return r.call(r.tool("find", entity), query=part)


def read_list(r: Rehearsal, entity: str, **filters: Any) -> list[Row]:
    """Read every page of a list."""
    tool = r.tool("list", entity)
    outcome = r.call(tool, **filters)
    rows = list(outcome.rows)
    for page in range(2, outcome.num_pages + 1):
        rows += r.call(tool, page=r.derive(page, "next", page - 1), **filters).rows
    return rows


def get_referred(r: Rehearsal, entity: str, row_id: object) -> None:
    """Get a row that a result refers to; where the result shows only its name, find its id first."""
    style = r.world.style
    if style.references is References.NAME and not style.by_name:
        find(r, entity, str(r.state.tables[entity][row_id]["name"]))  # type: ignore[index]
    r.call(r.tool("get", entity), ref=row_id)


def learn_places(r: Rehearsal) -> None:
    """Read the places where their ids are needed; elsewhere the request's own words will do."""
    if not r.world.style.by_name:
        read_list(r, "place")


def setter(r: Rehearsal, entity: str, field: str) -> WorldTool:
    """Return the tool that sets this field: the one that changes any, or its own."""
    if entity == "thing":
        for tool in r.world.tools:
            if tool.operation.key == "update":
                return tool
    return r.tool("set", entity, field)


def change(
    r: Rehearsal, entity: str, row: Row, field: str, value: object, *, same_turn: bool = False
) -> None:
    """Make the change; where a session is needed, open it first or when the error says so."""
    args: dict[str, Any] = {"ref": row["id"], field: value}
    tool = setter(r, entity, field)
    if same_turn:
        r.call(tool, same_turn=True, **args)
        return
    if r.stream.unit() < 0.5:
        open_session(r)
    if attempt(r, tool, **args) is None:
        raise Unfit(f"{tool.name} is refused")


def open_session(r: Rehearsal) -> None:
    if r.world.domain.rules.needs_session and not r.state.is_open:
        r.call(r.tool("open_session"))


def attempt(r: Rehearsal, tool: WorldTool, **args: Any) -> Outcome | None:
    """Make a call, do what its errors name and call again; None if it is refused for good."""
    for _ in range(_MAX_CURES):
        sent = r.styled(tool, **args)
        try:
            r.world.run(tool, r.state.copy(), sent)
        except Refusal:
            refusal = r.refused(tool, sent)
        else:
            return r.call(tool, **args)
        match refusal.cure:
            case "open_session":
                r.call(r.tool("open_session"))
            case "verify":
                r.call(r.tool("verify", "person"), ref=args[r.world.domain.theme.person])
            case _:
                return None
    raise Unfit(f"{tool.name} has too many prerequisites")


def price_of(r: Rehearsal) -> Field:
    return r.world.domain.entities["thing"].of_kind(Kind.NUMBER)[0]


def new_price(r: Rehearsal, old: float) -> float:
    """Return another price, near the old one."""
    new = round(max(1.0, old + r.stream.integer(1, 40) * r.stream.pick((-0.25, 0.25, 0.5))) + 0.05, 2)
    return round(new + 1, 2) if new == old else new


def get_by_short_name(r: Rehearsal, entity: str, row: Row, part: str) -> None:
    """Get a row by what the request calls it, which is refused, then look it up."""
    style = r.world.style
    if style.ids == "number" and not style.by_name:
        raise Unfit("an id that is no number is not even looked for")
    tool = r.tool("get", entity)
    sent = dict(r.styled(tool, ref=row["id"]))
    (name,) = tool.paths["ref"]
    r.refused(tool, {**sent, name: part})
    find(r, entity, part)
    r.call(tool, ref=row["id"])
