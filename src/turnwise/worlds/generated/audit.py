"""The audit of a task: each name, id, number and code was said or shown before, or follows from what was."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from turnwise.types import DemoTurn, Task
from turnwise.worlds.generated.rehearsal import Derived
from turnwise.worlds.generated.world import World

_TOKEN = re.compile(r"[A-Za-z0-9_@.:-]*[0-9][A-Za-z0-9_@.:-]*")
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+(?: [A-Z][a-z]+)*")
_SPOKEN_DATE = re.compile(r"\b(\d{1,2} [A-Z][a-z]+ \d{4})\b")
_CLOSED = {"yes", "no", "none", "done", "ok"}
"""Replies that state no value."""


def violations(task: Task, world: World, derived: Sequence[Derived] = ()) -> list[str]:
    """Return every value of a call or reply that comes from nowhere."""
    return list(_violations(task, world, derived))


def _violations(task: Task, world: World, derived: Sequence[Derived]) -> Iterator[str]:
    known = _Known(derived)
    offered = [tool for tool in world.tools if task.leased_tools is None or tool.name in task.leased_tools]
    known.add(json.dumps([[tool.name, tool.description, tool.input_schema] for tool in offered]))
    known.add("\n".join(message.content for message in task.prompt))
    for turn in task.demonstration:
        known.add(turn.user)
        yield from _unknown_in(turn, known)
        for result in turn.results:
            known.add(result.content)


def _unknown_in(turn: DemoTurn, known: "_Known") -> Iterator[str]:
    for call in turn.calls:
        for value in _leaves(call.arguments):
            if not known.has(value):
                yield f"{call.name} is called with {value!r}"
    text = turn.text.strip()
    if not text or text.casefold().rstrip(".") in _CLOSED or known.has(text):
        return
    for token in (*_TOKEN.findall(text), *_NAME.findall(text)):
        if not known.has(token.rstrip(".:")):
            yield f"the reply says {token!r}"


def _leaves(value: Any) -> Iterator[Any]:
    match value:
        case bool() | None:
            return
        case Mapping():
            for inner in value.values():
                yield from _leaves(inner)
        case list() | tuple():
            for inner in value:
                yield from _leaves(inner)
        case _:
            yield value


class _Known:
    """What has been said and shown so far."""

    def __init__(self, derived: Sequence[Derived]) -> None:
        self._text = ""
        self._numbers: set[float] = set()
        self._derived = derived

    def add(self, text: str) -> None:
        dates = "".join(f" {datetime.strptime(day, '%d %B %Y').date()}" for day in _SPOKEN_DATE.findall(text))
        self._text += f"\n{text}{dates}".casefold()
        self._numbers.update(_numbers(text))

    def has(self, value: Any) -> bool:
        return self._is_stated(value) or self._is_derived(value, len(self._derived))

    def _is_stated(self, value: Any) -> bool:
        if isinstance(value, int | float):
            return float(value) in self._numbers
        words = re.escape(str(value).casefold())
        return re.search(rf"(?<![a-z0-9]){words}(?![a-z0-9])", self._text) is not None

    def _is_derived(self, value: Any, num_before: int) -> bool:
        """Return whether one of the first derivations gives the value."""
        return any(
            _is_same(each.value, value) and self._follows(each, place)
            for place, each in enumerate(self._derived[:num_before])
        )

    def _follows(self, each: Derived, place: int) -> bool:
        """Return whether the value is what its inputs give, all of them stated or derived before."""
        if not all(self._is_stated(one) or self._is_derived(one, place) for one in each.inputs):
            return False
        computed: dict[str, Callable[[Sequence[Any]], float]] = {
            "count": len,
            "sum": sum,
            "product": math.prod,
            "difference": lambda inputs: inputs[0] - inputs[1],
            "next": lambda inputs: inputs[0] + 1,
        }
        return abs(computed[each.how](each.inputs) - float(each.value)) < 0.006


def _is_same(one: Any, other: Any) -> bool:
    """Return whether both say the same; a text may spell a number out."""
    try:
        return float(one) == float(other)
    except (TypeError, ValueError):
        return str(one) == str(other)


def _numbers(text: str) -> Iterable[float]:
    return (float(number) for number in re.findall(r"(?<![A-Za-z0-9_.])-?\d+(?:\.\d+)?", text))
