"""Argument sets to try with a tool, the most promising first."""

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from turnwise.explore.first.drawn_values import drawn_value
from turnwise.explore.first.name_words import name_words
from turnwise.explore.first.prose_examples import announced_examples
from turnwise.explore.first.value_formats import wanted_format
from turnwise.explore.first.values import Candidate, Source, Tier, Value, ValueStore, value_key
from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.types import Tool

Arguments = dict[str, Value]

MAX_CANDIDATES = 40
"""Values that are considered for one parameter."""

NUM_DRAWN = 3
"""Random values that are added for a parameter for which nothing promising is known."""

DOUBTFUL = 2.0
NUM_DOUBTED = 3
"""Further values that are tried for a parameter for which `DOUBTFUL` times as many failed as worked."""

NUM_OF_OPTIONAL = 3
"""Values that are tried for an optional parameter."""

MAX_COMBINED = 8
"""Parameters that are varied; further ones keep their best value."""

_UNPROMISING_COST = 3.0
"""Varying a parameter without promising values costs as much as three steps of another one."""

MAX_CHOICES = 8
_CHOICE_COST = 0.5
"""Of a few choices that a schema lists, all are tried with the best of the other values."""

_DOUBT_COST = 3.0
"""What a step to an untried value costs for every refused value per proven one."""

_REFUSED_COST = 10.0
"""A value that an error blamed may still fit another value of a second parameter, but hardly does."""

_REPEATED_COST = 10.0
"""Two parameters with the same value (convert USD to USD) are tried later."""

_MAX_TRIES = 10

_WITHOUT_DATA = frozenset(("date", "datetime", "time", "timezone", "currency", "pattern"))
"""Formats of texts that need no data: a date is a good value of any parameter that takes dates."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A parameter and its candidates."""

    parameter: Parameter
    candidates: Sequence[Candidate]
    doubt: float = 0.0
    """How much more an untried value costs because errors refused many (see `Evidence.doubt`)."""

    @property
    def num_promising(self) -> int:
        return sum(candidate.is_promising for candidate in self.candidates)

    def cost(self, place: int) -> float:
        tier = self.candidates[place].tier
        if self.parameter.enum and len(self.parameter.enum) <= MAX_CHOICES:
            return place * _CHOICE_COST
        if tier is Tier.REFUSED:
            return place * _REFUSED_COST
        extra = 0.0 if tier in (Tier.PROVEN, Tier.SCHEMA) else _DOUBT_COST * self.doubt
        return place * ((1.0 if self.candidates[place].is_promising else _UNPROMISING_COST) + extra)


def proposals(
    tool: Tool, store: ValueStore, chance: Random, *, limit: int, missing: Collection[str] = ()
) -> Iterator[Arguments]:
    """Yield different argument sets: required parameters, then optional ones one at a time, then the rest.

    missing: optional parameters that an error asked for; they count as required.
    """
    every = parameters_of(tool)
    repeats = _confirmations(every)
    parameters = [one for one in every if one.name not in repeats]
    required = [_choice(one, tool, store, chance) for one in parameters if _is_needed(one, missing)]
    if not all(choice.candidates for choice in required):
        return
    optional = [_choice(one, tool, store, chance) for one in parameters if not _is_needed(one, missing)]
    yielded: set[str] = set()
    best = next(_diagonal(required))
    combined = _combined(required)
    num_first = limit if not optional else max(1, limit // 2)
    for stage, most in ((combined, num_first), (_with_optional(best, optional), limit), (combined, limit)):
        for found in stage:
            if len(yielded) >= most:
                break
            arguments = found | {name: found[same] for name, same in repeats.items() if same in found}
            key = value_key({name: value.value for name, value in arguments.items()})
            if key not in yielded:
                yielded.add(key)
                for value in arguments.values():
                    store.count_use(value)
                yield arguments


def _is_needed(parameter: Parameter, missing: Collection[str]) -> bool:
    return parameter.is_required or parameter.name in missing


def _confirmations(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Return the parameters that repeat another one: `confirmPath` must be the same as `path`."""
    named = {name_words(one.name): one.name for one in parameters}
    found: dict[str, str] = {}
    for one in parameters:
        words = name_words(one.name)
        if words[:1] in (("confirm",), ("repeat",), ("verify",)) and words[1:] in named:
            found[one.name] = named[words[1:]]
    return found


def drawn_inputs(tool: Tool, chance: Random, count: int) -> list[Arguments]:
    """Draw different argument sets for a tool that computes; fewer than `count` if it has fewer inputs."""
    parameters = parameters_of(tool)
    found: dict[str, Arguments] = {}
    for _ in range(count * _MAX_TRIES):
        if len(found) >= count:
            break
        try:
            arguments = _drawn_arguments(parameters, chance)
        except LookupError:
            return []
        found.setdefault(value_key({name: value.value for name, value in arguments.items()}), arguments)
    return list(found.values())


def _drawn_arguments(parameters: Sequence[Parameter], chance: Random) -> Arguments:
    arguments: Arguments = {}
    for parameter in parameters:
        has_choices = bool(parameter.enum or parameter.examples) or parameter.minimum is not None
        if parameter.is_required or (has_choices and chance.random() < 0.3):
            arguments[parameter.name] = _drawn(parameter, chance, arguments)
    return arguments


def _drawn(parameter: Parameter, chance: Random, others: Arguments) -> Value:
    """Draw a value; another one if it repeats that of another parameter."""
    taken = [value_key(value.value) for value in others.values()]
    for _ in range(_MAX_TRIES):
        value = drawn_value(parameter, chance)
        if isinstance(value, bool) or value_key(value) not in taken:
            break
    return Value(value, parameter.name, Source.DRAWN)


def _choice(parameter: Parameter, tool: Tool, store: ValueStore, chance: Random) -> _Choice:
    candidates = store.ranked(parameter, limit=MAX_CANDIDATES, tool=tool)
    if not any(one.tier in (Tier.PROVEN, Tier.SCHEMA, Tier.EXAMPLE) for one in candidates):
        candidates = [*_tool_examples(parameter, tool), *candidates]
    if not any(candidate.is_promising for candidate in candidates):
        candidates = [*candidates, *_drawn_candidates(parameter, chance)]
    doubt = store.evidence.doubt(tool, parameter.name)
    if doubt >= DOUBTFUL:
        sure = [one for one in candidates if one.tier in (Tier.PROVEN, Tier.SCHEMA, Tier.USER)]
        candidates = [*sure, *[one for one in candidates if one not in sure][:NUM_DOUBTED]]
    return _Choice(parameter, candidates, doubt)


def _tool_examples(parameter: Parameter, tool: Tool) -> Iterator[Candidate]:
    """Yield the examples in a tool's description, if it has only one text that they can be meant for."""
    texts = [one.name for one in parameters_of(tool) if one.is_required and one.kind is Kind.TEXT]
    if texts == [parameter.name] and not parameter.enum:
        for text in announced_examples(tool.description):
            if parameter.accepts(text):
                yield Candidate(Value(text, parameter.name, Source.DESCRIPTION), Tier.EXAMPLE)


def _drawn_candidates(parameter: Parameter, chance: Random) -> Iterator[Candidate]:
    for _ in range(NUM_DRAWN):
        try:
            drawn: Any = drawn_value(parameter, chance)
        except LookupError:
            return
        yield Candidate(Value(drawn, parameter.name, Source.DRAWN), Tier.DRAWN)


def _combined(choices: Sequence[_Choice]) -> Iterator[Arguments]:
    """Yield the best set, sets whose values are from one row of an answer, then all by increasing cost."""
    diagonal = _diagonal(choices)
    yield next(diagonal)
    yield from _from_one_row(choices)
    yield from diagonal


def _diagonal(choices: Sequence[_Choice]) -> Iterator[Arguments]:
    """Yield sets by increasing cost; of equal ones, those that vary the most promising parameter first."""
    varied = sorted(range(len(choices)), key=lambda number: -choices[number].num_promising)[:MAX_COMBINED]
    start = tuple(0 for _ in varied)
    waiting: list[tuple[float, tuple[int, ...], bool]] = [(0.0, start, False)]
    seen = {start}
    while waiting:
        cost, key, was_delayed = heapq.heappop(waiting)
        places = tuple(-place for place in key)
        place_of = dict(zip(varied, places, strict=True))
        used = [choice.candidates[place_of.get(number, 0)].value for number, choice in enumerate(choices)]
        num_repeated = 0 if was_delayed else _num_repeated(used)
        if num_repeated:
            heapq.heappush(waiting, (cost + _REPEATED_COST * num_repeated, key, True))
        else:
            yield {choice.parameter.name: value for choice, value in zip(choices, used, strict=True)}
        if was_delayed:
            continue
        for following in _next_places(places, [len(choices[number].candidates) for number in varied]):
            if following not in seen:
                seen.add(following)
                cost = sum(
                    choices[number].cost(place) for number, place in zip(varied, following, strict=True)
                )
                # Negative, so that among equal costs the first parameter is varied first.
                heapq.heappush(waiting, (cost, tuple(-place for place in following), False))


def _next_places(places: tuple[int, ...], sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    for step, size in enumerate(sizes):
        if places[step] + 1 < size:
            yield (*places[:step], places[step] + 1, *places[step + 1 :])


def _num_repeated(values: Sequence[Value]) -> int:
    """Return how many values repeat another one; truth values may."""
    keys = [value_key(value.value) for value in values if not isinstance(value.value, bool)]
    return len(keys) - len(set(keys))


def _from_one_row(choices: Sequence[_Choice]) -> Iterator[Arguments]:
    """Yield sets in which two or more fitting values are from the same row: an owner and its repository."""
    rows: dict[tuple[Any, ...], Arguments] = {}
    for choice in choices:
        for candidate in choice.candidates:
            value = candidate.value
            if candidate.tier is Tier.FIT and value.observation is not None and value.path:
                row = rows.setdefault((value.observation, value.path[:-1]), {})
                row.setdefault(choice.parameter.name, value)
    for row in rows.values():
        if len(row) > 1:
            yield {
                choice.parameter.name: row.get(choice.parameter.name, choice.candidates[0].value)
                for choice in choices
            }


def _with_optional(best: Arguments, optional: Sequence[_Choice]) -> Iterator[Arguments]:
    """Yield the best set with one optional parameter added, for those with promising values."""
    yield dict(best)
    for place in range(NUM_OF_OPTIONAL):
        for choice in optional:
            needs_no_data = wanted_format(choice.parameter) in _WITHOUT_DATA
            useful = [
                one
                for one in choice.candidates
                if one.value.value != choice.parameter.default
                and (one.is_promising or (needs_no_data and one.tier is Tier.DRAWN))
            ]
            if place < len(useful):
                yield {**best, choice.parameter.name: useful[place].value}
