"""Two or three calls, where an answer leads to the next call along links that were executed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turnwise.explore.first.compose import Read, answering, document, drafted, step_of
from turnwise.explore.first.connections import Connection
from turnwise.explore.first.document import Document
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.leads import leads
from turnwise.explore.first.material import Material, canonical
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.query import Query
from turnwise.explore.first.wording import call_phrase, questions
from turnwise.tasks.proof.case import PlanStep, Results

_MAX_CALLS = 3
_NEXT = 3
"""Continuations followed from one answer: more would be the same chain with another entity."""


@dataclass(frozen=True, slots=True)
class _Hop:
    """A call, the query whose answer the next call needs, and the parameter that takes it."""

    observation: Observation
    query: Query
    parameter: str
    prefix: str = ""
    """What stands before the answer in the argument: the folder of a file."""


def chain(material: Material) -> Iterator[Draft]:
    """Chains that start at an observation and follow connections, the shortest first."""
    following: FollowUps = {}
    wanted: dict[int, set[str]] = {}
    for one in material.connections:
        following.setdefault((one.source.number, one.field, one.value), []).append(one)
        wanted.setdefault(one.source.number, set()).add(one.field)
    for length in range(2, _MAX_CALLS + 1):
        for start in material.observations:
            for hops, last in _paths(following, wanted, start, length):
                yield from _asked(material, hops, last)


FollowUps = dict[tuple[int, str, str], list[Connection]]
"""By number of an observation, field and value: the calls that used that value."""


def _paths(
    following: FollowUps,
    wanted: Mapping[int, set[str]],
    start: Observation,
    length: int,
    before: frozenset[str] = frozenset(),
) -> Iterator[tuple[tuple[_Hop, ...], Observation]]:
    """Yield the hops of every chain of this length from here, and the observation that ends it.

    `before` are the arguments of the calls that lead here: a chain does not come back to one of them.
    """
    if length == 1:
        yield (), start
        return
    fields = wanted.get(start.number, set())
    given = before | {canonical(value) for value in start.plain_arguments.values()}
    for query in leads(start.document, fields) if fields else ():
        if canonical(query.value) in given:
            continue  # the answer repeats an argument: no call is needed to know it
        for one in following.get((start.number, query.field, str(query.value)), [])[:_NEXT]:
            for hops, last in _paths(following, wanted, one.target, length - 1, given):
                if start.tool.name not in {last.tool.name, *(hop.observation.tool.name for hop in hops)}:
                    yield (_Hop(start, query, one.parameter, one.prefix), *hops), last


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
        yield step_of(observation, **{hop.parameter: _taken(hop, number, is_text=is_text)})


def _taken(hop: _Hop, number: int, *, is_text: bool) -> Read:
    """Read the query's answer from a result; a parameter that takes text gets the number as text."""

    def read(results: Results) -> object:
        value = hop.query.read(document(results, number))
        return f"{hop.prefix}{value}" if is_text else value

    return read
