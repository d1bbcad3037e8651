"""What the tools of a world do: read, search, change and refuse, before any style is put on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.worlds.generated.domain import Domain, Entity, Field, Kind
from turnwise.worlds.generated.state import Row, State
from turnwise.worlds.generated.vocabulary import spoken

CANCELLED = "cancelled"
"""The status that only `cancel` gives."""


class Refusal(Exception):
    """A call that a rule refuses; `cure` is the key of the operation that must come first, if any does."""

    def __init__(self, code: str, sentence: str, cure: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.cure = cure


@dataclass(frozen=True, slots=True)
class Param:
    """One argument of an operation, before it gets a styled name."""

    name: str
    kind: Kind
    is_required: bool = True
    values: tuple[str, ...] = ()
    default: Any = None
    target: str = ""
    group: str = ""
    """The object that a nested style puts it in."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation returns: rows of a list, one row, or values that belong to no row."""

    entity: Entity | None = None
    rows: tuple[Row, ...] = ()
    is_list: bool = False
    total: int = 0
    page: int = 1
    num_pages: int = 1
    values: Mapping[str, Any] | None = None


Run = Callable[["Setting", State, Entity | None, Mapping[str, Any]], Outcome]


@dataclass(frozen=True, slots=True)
class Setting:
    """What the operations of one world share."""

    domain: Domain
    rates: Mapping[str, float]
    """Price of a unit of the first currency in each other one."""
    new_id: Callable[[str, int], str | int]
    facts: Mapping[str, Any]
    """What the operation without arguments tells."""

    def person_of(self, record: Row) -> Any:
        return record[self.domain.theme.person]


@dataclass(frozen=True, slots=True)
class Operation:
    """A thing that can be done: `key` and `entity` say what, `params` with which arguments."""

    key: str
    entity: Entity | None
    params: tuple[Param, ...]
    run: Run
    is_read_only: bool = True
    field: str = ""
    """The field that it sets, where it sets one."""


def list_rows(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    assert entity is not None
    rows = [row for row in state.rows(entity.key) if _fits(entity, row, args)]
    if args.get("sort_by"):
        rows.sort(key=lambda row: row[args["sort_by"]], reverse=args.get("descending", False))
    limit, page = args.get("limit", 10), args.get("page", 1)
    if limit < 1 or page < 1:
        raise Refusal("invalid", "limit and page must be 1 or more.")
    shown = tuple(rows[(page - 1) * limit : page * limit])
    return Outcome(entity, shown, True, len(rows), page, max(1, -(-len(rows) // limit)))


def _fits(entity: Entity, row: Row, args: Mapping[str, Any]) -> bool:
    names = {field.name for field in entity.fields}
    is_equal = all(row[name] == value for name, value in args.items() if name in names)
    number = next((field.name for field in entity.of_kind(Kind.NUMBER)), "")
    highest = args.get(f"max_{number}")
    return is_equal and (highest is None or row[number] <= highest)


def find_rows(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    assert entity is not None
    words = args["query"].casefold().strip()
    rows = tuple(row for row in state.rows(entity.key) if words in row["name"].casefold())
    return Outcome(entity, rows, True, len(rows))


def get_row(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    assert entity is not None
    return Outcome(entity, (state.tables[entity.key][args["ref"]],))


def set_fields(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    assert entity is not None
    changes = {name: value for name, value in args.items() if name != "ref"}
    if not changes:
        raise Refusal("invalid", "Nothing to change was given.")
    row = state.change(entity.key, state.tables[entity.key][args["ref"]], **changes)
    return Outcome(entity, (row,))


def verify(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    return set_fields(setting, state, entity, {"ref": args["ref"], "verified": True})


def create_record(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    assert entity is not None
    theme, rules = setting.domain.theme, setting.domain.rules
    person = state.tables["person"][args[theme.person]]
    lines = args.get("items") or [{"thing": args[theme.thing], "count": args[theme.count]}]
    if rules.needs_verification and not person["verified"]:
        raise Refusal(
            "not_verified", f"{spoken(theme.person).title()} {person['name']} is not verified.", "verify"
        )
    for line in lines:
        _require_usable(setting, state.tables["thing"][line["thing"]])
    over = (theme.statuses[-1], CANCELLED)
    num_open = sum(
        setting.person_of(row) == person["id"] and row["status"] not in over for row in state.rows("record")
    )
    if num_open >= rules.max_open:
        words = (
            f"{person['name']} already has {num_open} open {spoken(theme.record)} entries; {rules.max_open}"
        )
        raise Refusal("limit", f"{words} is the most that is allowed.")
    new = setting.new_id("record", len(state.tables["record"]))
    row = {"id": new, **{field.name: args.get(field.name) for field in entity.fields[1:]}}
    row["status"] = theme.statuses[0]
    state.tables["record"][new] = row
    return Outcome(entity, (row,))


def usable_flag(domain: Domain) -> tuple[Field, bool] | None:
    """Return the field that keeps a thing from being used, and its value where the thing may be."""
    for field in domain.entities["thing"].of_kind(Kind.BOOLEAN):
        if field.name in ("available", "out_of_service", "blocked"):
            return field, field.name == "available"
    return None


def _require_usable(setting: Setting, thing: Row) -> None:
    flag = usable_flag(setting.domain)
    if flag is not None and thing[flag[0].name] is not flag[1]:
        why = spoken(flag[0].name) if not flag[1] else flag[0].opposite
        raise Refusal("conflict", f"{thing['name']} is {why}.")


def advance(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    assert entity is not None
    row, statuses = state.tables["record"][args["ref"]], setting.domain.theme.statuses
    now, wanted = row["status"], args["status"]
    is_next = now in statuses[:-1] and statuses[statuses.index(now) + 1] == wanted
    if now in (CANCELLED, wanted) or (setting.domain.rules.is_forward_only and not is_next):
        order = " > ".join(statuses)
        raise Refusal("conflict", f"The status is {now} and cannot become {wanted}; the order is {order}.")
    return Outcome(entity, (state.change("record", row, status=wanted),))


def cancel(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    assert entity is not None
    row, statuses = state.tables["record"][args["ref"]], setting.domain.theme.statuses
    if row["status"] in (statuses[-1], CANCELLED):
        raise Refusal("conflict", f"It is already {row['status']} and cannot be cancelled.")
    return Outcome(entity, (state.change("record", row, status=CANCELLED),))


def convert(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    rate = setting.rates[args["to"]] / setting.rates[args["from"]]
    amount = round(args["amount"] * rate + 1e-9, 2)
    return Outcome(values={"amount": amount, "currency": args["to"], "rate": round(rate, 4)})


def tell_facts(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    return Outcome(values=setting.facts)


def open_session(setting: Setting, state: State, entity: Entity | None, args: Mapping[str, Any]) -> Outcome:
    state.is_open = True
    return Outcome(values={"session": "open"})


def require_session(setting: Setting, state: State, operation: Operation) -> None:
    """Raise Refusal if the operation changes something and no session is open."""
    if setting.domain.rules.needs_session and not operation.is_read_only and not state.is_open:
        raise Refusal("no_session", "Changes need an open session.", "open_session")


def filters_of(entity: Entity) -> Sequence[Field]:
    return entity.of_kind(Kind.ENUM, Kind.REF, Kind.BOOLEAN)
