"""Reads more of what links lead to: calls of readers with further values, also those that they show."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from turnwise.explore.reading import is_cut
from turnwise.explore.records import Answer, Call, Link, Scalar
from turnwise.explore.survey.drawing import fitted
from turnwise.explore.survey.linking import with_source
from turnwise.explore.survey.parameters import Kind, Parameter, parameters_of
from turnwise.explore.survey.refusals import Refusals
from turnwise.explore.survey.sessions import Session
from turnwise.explore.survey.walk import Trace

_PER_TOOL = 36
"""Answers of one tool that are enough."""
_ROUNDS = 3
"""What an answer shows is called with in the next round: the files of a folder in a folder."""


async def followed(
    session: Session,
    traces: Mapping[str, Trace],
    links: Sequence[Link],
    answers: Sequence[Answer],
    refusals: Refusals,
    user: Mapping[str, Sequence[Any]],
) -> list[Answer]:
    """Return the answers together with those to calls with the user's and other values of the links."""
    found = {answer.call.key: answer for answer in answers}
    counts = Counter(answer.call.tool for answer in answers)
    tried = set(found)
    rng = Random(0)  # noqa: S311  # the order of values
    for number in range(_ROUNDS):
        num_before = len(found)
        calls = [] if number else list(_with_values(user, answers))
        for link in links:
            if not traces[link.tool].is_slow:
                linked = list(_calls(link, traces, links, list(found.values())))
                calls += rng.sample(linked, len(linked))
        for call in calls:
            if counts[call.tool] >= _PER_TOOL or session.budget.is_spent or call.key in tried:
                continue
            tried.add(call.key)
            answer = await session.call(call)
            if not refusals.is_refused(answer) and not answer.is_empty and not is_cut(answer.text):
                found[call.key] = answer
                counts[call.tool] += 1
        if len(found) == num_before:
            break
    return list(found.values())


def _with_values(user: Mapping[str, Sequence[Any]], answers: Sequence[Answer]) -> Iterator[Call]:
    """Yield known calls with the values that the user gave for a parameter."""
    for name, values in user.items():
        own = {answer.call.tool: answer.call for answer in reversed(answers) if name in answer.call.arguments}
        for call in own.values():
            yield from (replace(call, arguments={**call.arguments, name: value}) for value in values)


def _calls(
    link: Link, traces: Mapping[str, Trace], links: Sequence[Link], answers: Sequence[Answer]
) -> Iterator[Call]:
    """Yield a call for every value of a link that the answers show, with other parts of its row."""
    own = [one.call for one in answers if one.call.tool == link.tool and link.parameter in one.call.arguments]
    parameters = {one.name: one for one in parameters_of(traces[link.tool].tool)}
    places = {(place.tool, place.path): place.column for place in link.columns}
    if not own:
        return
    base = min(own, key=lambda call: len(call.arguments))
    for answer in answers:
        for relation in answer.relations:
            column = places.get((answer.call.tool, relation.path))
            for record in relation.records() if column is not None else ():
                if column in record:
                    parts = with_source(base.arguments, answer.call)
                    for other in links:
                        if other.tool == link.tool and other.parameter in parts and not other.prefix:
                            named = {(one.tool, one.path): one.column for one in other.columns}
                            cell = record.get(named.get((answer.call.tool, relation.path), ""))
                            if cell is not None:
                                parts |= _sent(parameters[other.parameter], cell)
                    prefix = answer.call.arguments.get(link.prefix, "") if link.prefix else ""
                    value = f"{str(prefix).rstrip('/')}/{record[column]}" if prefix else record[column]
                    parts |= _sent(parameters[link.parameter], value)
                    yield Call(answer.call.server, link.tool, parts)


def _sent(parameter: Parameter, value: Scalar) -> dict[str, object]:
    """Return an argument with a value; nothing if it does not fit."""
    is_list = parameter.kind is Kind.ARRAY and parameter.items is not None
    sent = fitted(value, parameter.items if is_list and parameter.items else parameter)
    return {} if sent is None else {parameter.name: [sent] if is_list else sent}
