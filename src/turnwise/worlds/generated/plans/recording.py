"""Plans about records: made, moved from status to status and cancelled, under the rules of the world."""

from collections.abc import Callable
from datetime import date

from turnwise.types import Answer, answer_of
from turnwise.worlds.generated.domain import Kind
from turnwise.worlds.generated.operations import CANCELLED, usable_flag
from turnwise.worlds.generated.plans.steps import attempt, find, open_session, part_of_name
from turnwise.worlds.generated.rehearsal import Rehearsal, Unfit
from turnwise.worlds.generated.state import Row
from turnwise.worlds.generated.vocabulary import a_date, spoken, words

REFUSED = "refused"
Fits = Callable[[Row], bool]


def create(r: Rehearsal) -> None:
    """Make a record; whatever an error says must come first is done."""
    num_open, max_open = _num_open(r), r.world.domain.rules.max_open
    ending = "Answer with the id of the new entry only."
    _create(r, lambda person: num_open(person) < max_open, _is_usable(r), ending)


def create_or_report(r: Rehearsal) -> None:
    """Make a record if the rules allow it: on one side they do not, and nothing can be done about it."""
    num_open, max_open, is_usable = _num_open(r), r.world.domain.rules.max_open, _is_usable(r)
    ending = f"Answer with the id of the new entry only, or with the word {REFUSED} if it cannot be made."

    def has_room(person: Row) -> bool:
        return num_open(person) < max_open and person.get("verified", True)

    def is_at_limit(person: Row) -> bool:
        return num_open(person) >= max_open and person.get("verified", True)

    if r.side:
        _create(r, has_room, is_usable, ending)
    elif usable_flag(r.world.domain) is not None:
        _create(r, has_room, lambda thing: not is_usable(thing), ending, is_allowed=False)
    else:
        _create(r, is_at_limit, is_usable, ending, is_allowed=False)


def _is_usable(r: Rehearsal) -> Fits:
    flag = usable_flag(r.world.domain)
    return lambda thing: flag is None or thing[flag[0].name] is flag[1]


def _num_open(r: Rehearsal) -> Callable[[Row], int]:
    theme = r.world.domain.theme
    over = (theme.statuses[-1], CANCELLED)

    def num_open(person: Row) -> int:
        mine = (row for row in r.state.rows("record") if row[theme.person] == person["id"])
        return sum(row["status"] not in over for row in mine)

    return num_open


def _create(
    r: Rehearsal, fits_person: Fits, fits_thing: Fits, ending: str, *, is_allowed: bool = True
) -> None:
    domain = r.world.domain
    theme = domain.theme
    person, name = part_of_name(r, domain.entities["person"], fits_person)
    thing, part = part_of_name(r, domain.entities["thing"], fits_thing)
    num, start = r.stream.integer(1, 6), a_date(r.stream)
    lines = domain.rules.has_lines
    what = (
        {"items": [{"thing": thing["id"], "count": num}]}
        if lines
        else {theme.thing: thing["id"], theme.count: num}
    )
    tool = r.tool("create", "record")
    find(r, "person", name)
    r.call(r.tool("find", "thing"), same_turn=True, query=part)
    outcome = attempt(r, tool, **{theme.person: person["id"], **what, "start": start.isoformat()})
    if (outcome is not None) is not is_allowed:
        raise Unfit("the rules say otherwise")
    message = r.say(
        "Enter a new {o} for the {p} {x}: the {n} {y}, {c} {k}, from {d}.",
        "The {p} {x} wants the {n} {y} from {d}, {c} {k}. Make the {o}.",
        o=spoken(theme.record),
        p=spoken(theme.person),
        x=name,
        n=spoken(theme.thing),
        y=part,
        c=num,
        k=spoken(theme.count),
        d=_spoken_date(start) if r.stream.unit() < 0.5 else start.isoformat(),
    )
    if outcome is None:
        r.finish(f"{message} {ending}", Answer(REFUSED), REFUSED)
        return
    new = outcome.rows[0]["id"]
    r.finish(f"{message} {ending}", answer_of(new) if isinstance(new, int) else Answer(new), str(new))


def _spoken_date(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def move(r: Rehearsal) -> None:
    """Move a record to its last status; where only the next one may follow, through those between."""
    statuses = r.world.domain.theme.statuses
    row = r.pick_row("record", lambda row: row["status"] in statuses[:-2])
    now, wanted = statuses.index(row["status"]), len(statuses) - 1
    tool = r.tool("advance", "record")
    open_session(r)
    if r.world.domain.rules.is_forward_only:
        r.refused(tool, r.styled(tool, ref=row["id"], status=statuses[wanted]))
        for status in statuses[now + 1 : wanted + 1]:
            r.call(tool, ref=row["id"], status=status)
    else:
        r.call(tool, ref=row["id"], status=statuses[wanted])
    status = statuses[wanted]
    message = r.say(
        "Bring {o} {i} to the status {s}; take every step that is needed.",
        "{o} {i} should be {s} in the end, whatever steps that takes.",
        o=spoken(r.world.domain.theme.record),
        i=row["id"],
        s=status,
    )
    r.finish(f"{message} Answer with its status only.", Answer(status), status)


def cancel(r: Rehearsal) -> None:
    """Cancel a record: on one side it is too late."""
    theme = r.world.domain.theme
    tool = r.tool("cancel", "record")
    over = (theme.statuses[-1], CANCELLED)
    row = r.pick_row("record", lambda row: (row["status"] not in over) is bool(r.side))
    reason = r.stream.pick(words()["reason"]) if r.stream.unit() < 0.5 else ""
    r.call(r.tool("get", "record"), ref=row["id"])
    open_session(r)
    args = {"ref": row["id"], **({"reason": reason} if reason else {})}
    if (attempt(r, tool, **args) is not None) is not bool(r.side):
        raise Unfit("the rules say otherwise")
    why = f"; the reason is {reason}" if reason else ""
    message = r.say(
        "Cancel {o} {i}{y}.", "{o} {i} is to be cancelled{y}.", o=spoken(theme.record), i=row["id"], y=why
    )
    answer = CANCELLED if r.side else REFUSED
    ending = f"Answer {CANCELLED}, or {REFUSED} if it cannot be done any more."
    r.finish(f"{message} {ending}", Answer(answer), answer)


def count_of_person(r: Rehearsal) -> None:
    """Ask how many records of one person have a status."""
    theme = r.world.domain.theme
    person, name = part_of_name(r, r.world.domain.entities["person"])
    status = r.stream.pick(theme.statuses)
    find(r, "person", name)
    found = r.call(r.tool("list", "record"), **{theme.person: person["id"], "status": status})
    if found.num_pages > 1:
        raise Unfit("several pages")
    num = r.derive(found.total, "count", *(row["id"] for row in found.rows))
    message = r.say(
        "How many {o} entries of {x} are {s}?",
        "{x} is a {p} of ours. How many {o} entries with the status {s} are there for that name?",
        o=spoken(theme.record),
        x=name,
        p=spoken(theme.person),
        s=status,
    )
    assert r.world.domain.entities["record"].field("status").kind is Kind.ENUM
    r.finish(f"{message} Answer with the number only.", answer_of(num), str(num))
