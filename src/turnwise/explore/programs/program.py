"""A small program over tool calls: what a task asks for, before it is put into words."""

import copy
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.explore import algebra
from turnwise.explore.algebra.query import Form, Query
from turnwise.explore.reading import read
from turnwise.explore.records import Call, Change, Scalar

_PART = re.compile(r"[^.\[\]]+|\[\d*\]")


@dataclass(frozen=True, slots=True)
class Taken:
    """An argument that is read from the answer to an earlier step."""

    parameter: str
    """A dotted path, as in `Parameter`."""
    step: int
    query: Query
    prefix: str = ""
    """What stands in front of the value, such as a folder with a slash."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a program."""

    server: str
    tool: str
    arguments: Mapping[str, Any]
    """Those that are fixed."""
    taken: tuple[Taken, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A value that is read from the answer to a step."""

    step: int
    query: Query


@dataclass(frozen=True, slots=True)
class Program:
    """Steps, and the values of their answers that make up the result; or changes that the steps make."""

    shape: str
    steps: tuple[Step, ...]
    asked: tuple[Asked, ...] = ()
    """One value, or two with `combination`."""
    combination: str = ""
    """`difference` or `total` of two values."""
    changes: tuple[Change, ...] = ()

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(step.tool for step in self.steps)

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.server for step in self.steps))

    @property
    def form(self) -> Form:
        forms = {algebra.form(one.query) for one in self.asked}
        is_sum_of_reals = self.combination and any(one.query.kind == "number" for one in self.asked)
        return Form.ROUNDED if is_sum_of_reals else max(forms, key=list(Form).index)

    @property
    def key(self) -> str:
        """The same for the same program."""
        steps = [
            (
                Call("", step.tool, step.arguments).key,
                [(t.parameter, t.step, t.query.key) for t in step.taken],
            )
            for step in self.steps
        ]
        return repr((self.shape, steps, [(one.step, one.query.key) for one in self.asked], self.combination))


def call_of(program: Program, number: int, texts: Sequence[str]) -> Call:
    """Return a step's call, given the answers to the steps before it."""
    step = program.steps[number]
    arguments = copy.deepcopy(dict(step.arguments))
    for taken in step.taken:
        value = value_of(program, Asked(taken.step, taken.query), texts)
        put(arguments, taken.parameter, f"{taken.prefix}{value}" if taken.prefix else value)
    return Call(step.server, step.tool, arguments)


def value_of(program: Program, asked: Asked, texts: Sequence[str]) -> Scalar:
    """Return one value; LookupError or ValueError if the answers do not have it."""
    call = call_of(program, asked.step, texts)
    return algebra.answer(asked.query, read_once(call, texts[asked.step]))


def result_of(program: Program, texts: Sequence[str]) -> Scalar:
    """Return what the program comes to."""
    values = [value_of(program, one, texts) for one in program.asked]
    if not program.combination:
        [value] = values
        return value
    first, second = (_number(value) for value in values)
    return round(abs(first - second) if program.combination == "difference" else first + second, 6)


def _number(value: Scalar) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    return value


@functools.lru_cache(maxsize=4096)
def read_once(call: Call, text: str):  # type: ignore[no-untyped-def]  # the result type is that of `read`
    return read(call, text)


def put(arguments: dict[str, Any], path: str, value: Any) -> None:
    """Set an argument by its dotted path: `items[].name` is that of the first item."""
    parts = _PART.findall(path)
    node: Any = arguments
    for part, following in zip(parts, [*parts[1:], ""], strict=True):
        key: Any = int(part[1:-1] or 0) if part.startswith("[") else part
        if not following:
            if isinstance(node, list) and key == len(node):
                node.append(value)
            else:
                node[key] = value
            return
        empty: Any = [] if following.startswith("[") else {}
        if isinstance(node, list):
            if key == len(node):
                node.append(empty)
        elif key not in node or not isinstance(node[key], list | dict):
            node[key] = empty
        node = node[key]


def flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments by their dotted paths; lists of plain values stay whole."""
    found: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, Mapping) and value:
            for name, item in value.items():
                walk(item, f"{path}.{name}")
        elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
            for place, item in enumerate(value):
                walk(item, f"{path}[{place}]")
        else:
            found[path] = value

    for name, value in arguments.items():
        walk(value, name)
    return found
