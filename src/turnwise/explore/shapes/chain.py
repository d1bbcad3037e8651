"""Two or three calls, where an answer leads to the next call along links that were executed."""

from collections.abc import Iterator
from dataclasses import dataclass

from turnwise.explore.compose import Read, answering, document, drafted, step_of
from turnwise.explore.document import Document
from turnwise.explore.draft import Draft
from turnwise.explore.leads import leads
from turnwise.explore.material import Material, canonical
from turnwise.explore.observation import Observation
from turnwise.explore.query import Query
from turnwise.explore.wording import call_phrase, questions
from turnwise.tasks.family import PlanStep, Results

_MAX_CALLS = 3
_NEXT = 3
"""Continuations followed from one answer: more would be the same chain with another entity."""


@dataclass(frozen=True, slots=True)
class _Hop:
    """A call, the query whose answer the next call needs, and the parameter that takes it."""

    observation: Observation
    query: Query
    parameter: str


def chain(material: Material) -> Iterator[Draft]:
    """Chains that start at an observation and follow links, the shortest first."""
    follow_ups = _follow_ups(material)
    for length in range(2, _MAX_CALLS + 1):
        for start in material.observations:
            for hops, last in _paths(material, follow_ups, start, length):
                yield from _asked(material, hops, last)


FollowUps = dict[tuple[str, str, str], list[tuple[str, Observation]]]
"""By tool, field and value: the parameter and the observation of a call that used that value."""


def _follow_ups(material: Material) -> FollowUps:
    found: FollowUps = {}
    links: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for link in material.links:
        links.setdefault((link.target_tool, link.parameter), []).append((link.source_tool, link.field))
    for observation in material.observations:
        for parameter, value in observation.arguments.items():
            for source in links.get((observation.tool.name, parameter), ()):
                key = (*source, canonical(value.value))
                found.setdefault(key, []).append((parameter, observation))
    return found


def _paths(
    material: Material, follow_ups: FollowUps, start: Observation, length: int
) -> Iterator[tuple[tuple[_Hop, ...], Observation]]:
    """Yield the hops of every chain of this length from here, and the observation that ends it."""
    if length == 1:
        yield (), start
        return
    wanted = {link.field for link in material.links if link.source_tool == start.tool.name}
    given = {canonical(value) for value in start.plain_arguments.values()}
    for query in leads(start.document, wanted) if wanted else ():
        if canonical(query.value) in given:
            continue  # the answer repeats the question: no call is needed to know it
        key = (start.tool.name, query.field, canonical(query.value))
        for parameter, target in follow_ups.get(key, [])[:_NEXT]:
            if target.tool.name != start.tool.name:
                for hops, last in _paths(material, follow_ups, target, length - 1):
                    if all(hop.observation.tool.name != start.tool.name for hop in hops):
                        yield (_Hop(start, query, parameter), *hops), last


def _asked(material: Material, hops: tuple[_Hop, ...], last: Observation) -> Iterator[Draft]:
    observations = [*(hop.observation for hop in hops), last]
    taken: list[tuple[str, ...]] = [(), *((hop.parameter,) for hop in hops)]
    phrases = [
        call_phrase(seen.tool, seen.plain_arguments, linked=linked)
        for seen, linked in zip(observations, taken, strict=True)
    ]
    for query in material.asked(last):
        if any(_names(hop.observation.document, query) for hop in hops):
            continue  # an earlier answer has the same field with the same value
        yield drafted(
            "chain",
            turns=tuple((step,) for step in _steps(hops, last)),
            conclude=answering(query),
            questions=questions(query.noun, phrases, query.form, link_nouns=[hop.query.noun for hop in hops]),
            tools=tuple(observation.tool for observation in observations),
            entities=material.entities(*observations),
            key=" ".join([*(f"{hop.observation.key} {hop.query.key}" for hop in hops), last.key, query.key]),
        )


def _names(document: Document, query: Query) -> bool:
    """Return whether a document states the query's value under the name that the query ends with."""
    name = query.field or query.key.rpartition("/")[2]
    stated = [field.value for field in document.fields if field.name == name]
    stated += [row[name] for table in document.tables for row in table.rows if name in row]
    return query.value in stated


def _steps(hops: tuple[_Hop, ...], last: Observation) -> Iterator[PlanStep]:
    yield step_of(hops[0].observation)
    following = [*(hop.observation for hop in hops[1:]), last]
    for number, (hop, observation) in enumerate(zip(hops, following, strict=True)):
        is_text = isinstance(observation.plain_arguments[hop.parameter], str)
        yield step_of(observation, **{hop.parameter: _taken(hop.query, number, is_text=is_text)})


def _taken(query: Query, number: int, *, is_text: bool) -> Read:
    """Read the query's answer from a result; a parameter that takes text gets the number as text."""

    def read(results: Results) -> object:
        value = query.read(document(results, number))
        return str(value) if is_text else value

    return read
