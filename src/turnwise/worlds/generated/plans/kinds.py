"""Every kind of task by name, and the two sides of those that come as contrast pairs."""

from collections.abc import Callable
from dataclasses import dataclass

from turnwise.worlds.generated.plans import asking, changing, recording, talking
from turnwise.worlds.generated.rehearsal import Rehearsal


@dataclass(frozen=True, slots=True)
class TaskKind:
    """A kind of task; one with two sides makes both of a pair or none."""

    name: str
    rehearse: Callable[[Rehearsal], None]
    sides: tuple[str, ...] = ("",)

    def family(self, side: int) -> str:
        return f"{self.name}_{self.sides[side]}" if self.sides[side] else self.name


KINDS: tuple[TaskKind, ...] = (
    TaskKind("look_up", asking.look_up),
    TaskKind("set_price", changing.set_price),
    TaskKind("missing_fact", talking.missing_fact, ("left_out", "given")),
    TaskKind("extreme", asking.extreme),
    TaskKind("create", recording.create),
    TaskKind("count_at_place", asking.count_at_place, ("none", "some")),
    TaskKind("set_flag", changing.set_flag),
    TaskKind("three_requests", talking.several_requests(3)),
    TaskKind("of_record", asking.of_record),
    TaskKind("cancel", recording.cancel, ("too_late", "in_time")),
    TaskKind("set_address", changing.set_address),
    TaskKind("in_other_currency", asking.in_other_currency),
    TaskKind("missing_tool", talking.missing_tool, ("absent", "present")),
    TaskKind("set_all", changing.set_all),
    TaskKind("by_flag", asking.by_flag),
    TaskKind("move", recording.move),
    TaskKind("four_requests", talking.several_requests(4)),
    TaskKind("same_for_others", asking.same_for_others),
    TaskKind("set_if", changing.set_if, ("false", "true")),
    TaskKind("bill", asking.bill),
    TaskKind("part_waits", talking.part_waits),
    TaskKind("by_short_name", asking.by_short_name),
    TaskKind("five_requests", talking.several_requests(5)),
    TaskKind("exists", asking.exists, ("absent", "present")),
    TaskKind("set_tags", changing.set_tags),
    TaskKind("by_price", asking.by_price),
    TaskKind("create_or_report", recording.create_or_report, ("refused", "allowed")),
    TaskKind("second_thoughts", talking.second_thoughts),
    TaskKind("six_requests", talking.several_requests(6)),
    TaskKind("count_of_person", recording.count_of_person),
    TaskKind("told_or_asked", talking.told_or_asked, ("told", "asked")),
    TaskKind("difference", asking.difference),
    TaskKind("count_listed", asking.count_listed),
)
"""Neighbours differ, so that the tasks of one world are of many kinds."""
