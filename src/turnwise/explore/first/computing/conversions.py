"""Conversions: a tool that takes a number, a unit to convert from and a unit to convert to."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.explore.first.caller import Session
from turnwise.explore.first.computing.answer_number import (
    answer_path,
    form_of_number,
    number_in,
    numbers_among,
)
from turnwise.explore.first.computing.computation import Computation
from turnwise.explore.first.computing.units import is_natural, unit_phrase
from turnwise.explore.first.document import Path
from turnwise.explore.first.name_words import name_words
from turnwise.explore.first.observation import Observation
from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.types import Difficulty, Tool

MAX_DRAWN = 60
"""Conversions that are tried with one tool."""
_SHARE_OF_SUMS = 4
"""One call in four is for sums of two conversions."""
FROM_WORDS = frozenset(("from", "source", "input", "old", "base"))
TO_WORDS = frozenset(("to", "target", "output", "new", "into", "destination"))
_MAX_RESULT = 1e7
_LEAST_SHARE = 0.001


@dataclass(frozen=True, slots=True)
class Converter:
    """A tool that converts, with the names of its parameters and the units that it knows."""

    tool: Tool
    value: Parameter
    source: str
    target: str
    units: tuple[str, ...]
    """In the order of the schema."""

    def arguments(self, value: float, source: str, target: str) -> dict[str, object]:
        return {self.value.name: value, self.source: source, self.target: target}


def converter_of(tool: Tool, observations: Sequence[Observation]) -> Converter | None:
    """Return the converter that a tool is, if its parameters and its vocabulary show it."""
    found = _signature(tool)
    if found is None:
        return None
    value, source, target = found
    units = [unit for unit in source.enum if isinstance(unit, str) and unit in target.enum]
    if not source.enum:
        names = (source.name, target.name)
        known = [seen.plain_arguments.get(name) for seen in observations for name in names]
        units = sorted({unit for unit in known if isinstance(unit, str)})
    if len(units) < 2:
        return None
    return Converter(tool, value, source.name, target.name, tuple(dict.fromkeys(units)))


def looks_like_converter(tool: Tool) -> bool:
    """Return whether a tool takes a number and two units from a list."""
    found = _signature(tool)
    return found is not None and bool(found[1].enum)


def _signature(tool: Tool) -> tuple[Parameter, Parameter, Parameter] | None:
    """Return the parameters for the number, the unit to convert from and the unit to convert to."""
    required = [one for one in parameters_of(tool) if one.is_required]
    numbers = [one for one in required if one.kind in (Kind.NUMBER, Kind.INTEGER)]
    texts = [one for one in required if one.kind is Kind.TEXT]
    source = next((one for one in texts if FROM_WORDS.intersection(name_words(one.name))), None)
    target = next((one for one in texts if TO_WORDS.intersection(name_words(one.name))), None)
    if len(required) != 3 or len(numbers) != 1 or source is None or target is None or source is target:
        return None
    return numbers[0], source, target


async def conversions(
    converter: Converter, session: Session, chance: random.Random, max_calls: int
) -> list[Computation]:
    """Try drawn conversions; return those whose answers can be asked for, and sums of two of them."""
    made: list[Computation] = []
    first: _Converted | None = None
    num_sums = min(MAX_DRAWN, max_calls) // _SHARE_OF_SUMS
    for _ in range(min(MAX_DRAWN, max_calls) - num_sums):
        if session.is_spent:
            break
        source, target = _different(converter.units, 2, chance)
        one = await _converted(converter, session, drawn_amount(converter.value, chance), source, target)
        computation = None if one is None else _single(converter, one)
        if computation is not None:
            first = first or one
            made.append(computation)
    if first is None or len(converter.units) < 3 or not await _is_proportional(converter, session, first):
        return made
    for _ in range(num_sums // 2):
        if session.is_spent:
            break
        *sources, target = _different(converter.units, 3, chance)
        parts = [
            await _converted(converter, session, drawn_amount(converter.value, chance), source, target)
            for source in sources
        ]
        computation = _sum(converter, *parts)
        if computation is not None:
            made.append(computation)
    return made


@dataclass(frozen=True, slots=True)
class _Converted:
    amount: float
    source: str
    target: str
    result: float
    path: Path

    def key(self) -> str:
        return f"{self.amount} {self.source} {self.target}"


async def _converted(
    converter: Converter, session: Session, amount: float, source: str, target: str
) -> _Converted | None:
    arguments = converter.arguments(amount, source, target)
    reply = await session.call(converter.tool, arguments)
    if reply.document is None:
        return None
    path = answer_path(reply.document, numbers_among(arguments))
    result = None if path is None else number_in(reply.document.field(path))
    if path is None or result is None:
        return None
    return _Converted(amount, source, target, result, path)


def drawn_amount(parameter: Parameter, chance: random.Random) -> float:
    """Draw a number that people type: from 2 to 1000, with at most two decimals."""
    decimals = 0 if parameter.kind is Kind.INTEGER else int(chance.random() * 6) // 3
    if chance.random() < 0.1 and parameter.kind is Kind.NUMBER:
        decimals = 2
    highest = 99 if chance.random() < 0.5 else 1000
    drawn = round(2 + (highest - 2) * chance.random(), decimals)
    amount = int(drawn) if decimals == 0 or drawn.is_integer() else drawn
    return amount if parameter.accepts(amount) else parameter.minimum or amount


def _different(units: Sequence[str], count: int, chance: random.Random) -> list[str]:
    left = list(units)
    return [left.pop(int(chance.random() * len(left))) for _ in range(count)]


def _single(converter: Converter, one: _Converted) -> Computation | None:
    form = form_of_number(one.result)
    if form is None or abs(one.result) > _MAX_RESULT:
        return None
    return Computation(
        "convert",
        converter.tool,
        (converter.arguments(one.amount, one.source, one.target),),
        one.path,
        form,
        _wordings(converter, one),
        one.key(),
    )


def _wordings(converter: Converter, one: _Converted) -> tuple[str, ...]:
    name = f"`{converter.tool.name}`"
    if is_natural(one.source) and is_natural(one.target):
        amount, target = f"{one.amount} {unit_phrase(one.source)}", unit_phrase(one.target)
        what = f"What is {amount} in {target}?"
        last = f"Can you tell me what {amount} is in {target}?"
        many = f"How many {target} are {amount}?"
    else:
        amount, target = f"{one.amount} from “{one.source}”", f"“{one.target}”"
        what = f"What is the result of converting {amount} to {target}?"
        last = f"Can you tell me the result of converting {amount} to {target}?"
        many = f"How much is {one.amount} in “{one.source}”, given in {target}?"
    return (
        f"Use {name} to convert {amount} to {target}.",
        f"{what} Use {name}.",
        what,
        f"Convert {amount} to {target}.",
        many,
        f"Please convert {amount} to {target}.",
        f"I need you to convert {amount} to {target}.",
        last,
    )


async def _is_proportional(converter: Converter, session: Session, one: _Converted) -> bool:
    """Return whether twice the amount gives twice the result, so that results may be added."""
    twice = await _converted(converter, session, 2 * one.amount, one.source, one.target)
    return twice is not None and abs(twice.result - 2 * one.result) <= 1e-6 * abs(twice.result)


def _sum(converter: Converter, one: _Converted | None, other: _Converted | None) -> Computation | None:
    """ "How many centimeters are 6 feet and 2 inches together?"; None if one part is lost in the other."""
    if one is None or other is None or one.path != other.path:
        return None
    total = one.result + other.result
    form = form_of_number(total)
    is_even = total > 0 and _LEAST_SHARE <= one.result / total <= 1 - _LEAST_SHARE
    are_natural = all(map(is_natural, (one.source, other.source, one.target)))
    if form is None or not is_even or not are_natural or total > _MAX_RESULT:
        return None
    return Computation(
        "convert_and_add",
        converter.tool,
        tuple(converter.arguments(part.amount, part.source, part.target) for part in (one, other)),
        one.path,
        form,
        _sum_wordings(converter, one, other),
        f"{one.key()} + {other.key()}",
        Difficulty.MEDIUM,
    )


def _sum_wordings(converter: Converter, one: _Converted, other: _Converted) -> tuple[str, ...]:
    name = f"`{converter.tool.name}`"
    first, second = (f"{part.amount} {unit_phrase(part.source)}" for part in (one, other))
    target = unit_phrase(one.target)
    both = f"{first} and {second}"
    return (
        f"Use {name} to convert {both} to {target}, and tell me the sum.",
        f"How many {target} are {both} together? Use {name}.",
        f"How many {target} are {both} together?",
        f"Convert {both} to {target} and add the two results.",
        f"What is {first} plus {second} in {target}?",
        f"Please add {both} and give the sum in {target}.",
        f"I need the sum of {both} in {target}.",
        f"Can you tell me what {both} are together, in {target}?",
    )
