"""The parts that all shapes build drafts from: steps, conclusions, entities, difficulty."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from turnwise.explore.first.answers import answer_of_value
from turnwise.explore.first.arithmetic import form_of_result
from turnwise.explore.first.document import Document, Scalar, document_of
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.material import Material, canonical, is_number
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.query import Measure, Query
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results
from turnwise.types import Difficulty, Tool

Read = Callable[[Results], object]
"""Computes an argument from the documents of the calls before it."""


def step_of(observation: Observation, **taken: Read) -> PlanStep:
    """Return the observation's call as a step; the arguments in `taken` are computed from earlier results."""
    fixed = observation.plain_arguments

    def arguments(results: Results) -> Mapping[str, Any]:
        return {**fixed, **{name: read(results) for name, read in taken.items()}}

    return PlanStep(observation.tool.name, arguments)


def conclusion_of(query: Query, value: Scalar) -> Conclusion:
    """Return the answer to a query, as it was computed now."""
    answer, text = answer_of_value(value, query.form)
    return Conclusion(answer, text)


def answering(query: Query) -> Callable[[Results], Conclusion]:
    """Conclude a plan with the query's answer in its last result."""

    def conclude(results: Results) -> Conclusion:
        return conclusion_of(query, query.read(document(results, -1)))

    return conclude


def computed_conclusion(value: float) -> Conclusion:
    """Return the answer for a number that was computed from several results."""
    answer, text = answer_of_value(value, form_of_result(value))
    return Conclusion(answer, text)


def siblings(material: Material) -> Iterator[list[Observation]]:
    """Yield groups of calls to one tool that differ in its telling argument only, and are of one split."""
    groups: dict[tuple[str, str, str], list[Observation]] = {}
    for observation in material.observations:
        name = material.telling.get(observation.tool.name, "")
        value = observation.arguments.get(name)
        if value is None or not isinstance(value.value, str | int | float) or isinstance(value.value, bool):
            continue
        if observation.number in material.worth.wordy:
            continue
        rest = {other: found.value for other, found in observation.arguments.items() if other != name}
        key = (observation.tool.name, canonical(rest), material.split_of(observation))
        groups.setdefault(key, []).append(observation)
    yield from (group for (_, _, split), group in groups.items() if split and len(group) > 1)


def drafted(
    shape: str,
    *,
    turns: tuple[tuple[PlanStep, ...], ...],
    conclude: Callable[[Results], Conclusion],
    questions: tuple[str, ...],
    tools: tuple[Tool, ...],
    entities: tuple[str, ...],
    key: str,
    changes_state: bool = False,
) -> Draft:
    """Return a draft; its difficulty follows from the number of calls, turns and servers."""
    servers = tuple(dict.fromkeys(tool.server for tool in tools))
    return Draft(
        shape=shape,
        case=Case({}, "", turns, conclude, parse=document_of),
        questions=questions,
        tools=tuple(tool.name for tool in tools),
        servers=servers,
        entities=tuple(dict.fromkeys(entities)),
        difficulty=_difficulty(len(tools), len(turns), len(servers)),
        key=f"{shape} {key}",
        changes_state=changes_state,
    )


def _difficulty(num_calls: int, num_turns: int, num_servers: int) -> Difficulty:
    if num_calls == 1:
        return Difficulty.EASY
    return Difficulty.MEDIUM if num_calls + num_turns + num_servers <= 5 else Difficulty.HARD


def document(results: Results, number: int) -> Document:
    """Return one of the results, which are documents in the plans of an exploration."""
    found = results[number]
    assert isinstance(found, Document)
    return found


def number_of(value: Scalar) -> float:
    """Return a number as it is; ValueError if the value is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    return value


def shared_numbers(
    material: Material, first: Observation, second: Observation
) -> Iterator[tuple[Query, Query]]:
    """Yield the queries that both answer with a number that is worth computing with."""
    others = {query.key: query for query in material.asked(second)}
    for query in material.asked(first):
        other = others.get(query.key)
        is_numeric = other is not None and is_number(query.value) and is_number(other.value)
        if (
            query.measure is not Measure.NONE
            and is_numeric
            and other is not None
            and query.value != other.value
        ):
            yield query, other
