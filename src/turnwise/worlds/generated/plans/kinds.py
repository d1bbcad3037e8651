"""Every kind of task by name, and the two sides of those that come as contrast pairs."""

from collections.abc import Callable
from dataclasses import dataclass

from turnwise.worlds.generated.plans.asking import count_listed, look_up
from turnwise.worlds.generated.plans.changing import set_price
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
    TaskKind("look_up", look_up),
    TaskKind("count_listed", count_listed),
    TaskKind("set_price", set_price),
)
