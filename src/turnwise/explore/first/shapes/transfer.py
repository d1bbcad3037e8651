"""A value that one call looks up and another call writes, on the same server or on another one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from turnwise.explore.first.change import Change
from turnwise.explore.first.compose import document, drafted, step_of
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.material import Material
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.query import Form, Query
from turnwise.explore.first.wording import call_phrase, located, transfer_questions
from turnwise.tasks.proof.case import Conclusion, PlanStep, Results
from turnwise.types import Answer, ExpectedWrite, StateProbe

_PER_CHANGE = 3
"""Values that are looked up for one change."""
_PER_READER = 1
_MIN_CHARS = 4
_MAX_CHARS = 60
_MAX_REPEATS = 2
"""A value that an answer repeats more often, such as a kind or a state, can be guessed."""


def transfer(material: Material) -> Iterator[Draft]:
    """Changes that write a text, with a value of an answer in its place."""
    for number, made in enumerate(material.changes):
        if made.content and not any(probe.lacks for probe in made.probes):
            yield from _of_change(material, made, number)


def _of_change(material: Material, made: Change, number: int) -> Iterator[Draft]:
    """Yield values for one change, from other servers first, different ones for different changes."""
    ordered = [*material.observations[number * 7 :], *material.observations[: number * 7]]
    ordered.sort(key=lambda seen: seen.tool.server == made.tool.server)
    num_of_reader: dict[str, int] = {}
    num_found = 0
    for observation in ordered:
        fitting = (one for one in material.asked(observation) if _is_fit(one, observation))
        query = next(fitting, None)
        used = num_of_reader.get(observation.tool.name, 0)
        # the same new name is in other tasks of the change: they must be in one split
        is_apart = material.splits.split_of(made.entities) != material.split_of(observation)
        if query is None or used >= _PER_READER or is_apart:
            continue
        num_of_reader[observation.tool.name] = used + 1
        num_found += 1
        yield _drafted(material, made, observation, query)
        if num_found >= _PER_CHANGE:
            return


def _is_fit(query: Query, observation: Observation) -> bool:
    """Return whether a value is copied as it is, and would not be in an answer by chance."""
    value = str(query.value)
    is_copied = query.form in (Form.TEXT, Form.NUMBER) and not isinstance(query.value, bool)
    is_rare = 0 < observation.document.text.count(value) <= _MAX_REPEATS
    return is_copied and is_rare and _MIN_CHARS <= len(value) <= _MAX_CHARS and value.isprintable()


def _drafted(material: Material, made: Change, observation: Observation, query: Query) -> Draft:
    value = str(query.value)
    phrase = call_phrase(observation.tool, observation.plain_arguments)
    probes = tuple(
        replace(probe, contains=value) if probe.contains == made.content else probe for probe in made.probes
    )
    replaced = {name: _replaced(item, made.content, value) for name, item in made.arguments.items()}
    written = {name: item for name, item in replaced.items() if item != made.arguments[name]}
    return drafted(
        "transfer",
        turns=((step_of(observation),), (_written(made, query),)),
        conclude=_done(probes, ExpectedWrite(made.tool.name, written)),
        questions=transfer_questions(
            located(query.noun, phrase), phrase, made.tool, made.arguments, made.content
        ),
        tools=(observation.tool, made.tool),
        entities=(*made.entities, *material.entities(observation)),
        key=f"{observation.key} {query.key} {made.tool.name} {sorted(made.arguments.items(), key=str)}",
        changes_state=True,
    )


def _written(made: Change, query: Query) -> PlanStep:
    def arguments(results: Results) -> Mapping[str, Any]:
        value = str(query.read(document(results, 0)))
        return {name: _replaced(item, made.content, value) for name, item in made.arguments.items()}

    return PlanStep(made.tool.name, arguments)


def _replaced(item: Any, old: str, new: str) -> Any:
    """Return an argument with one text replaced, at any depth."""
    if isinstance(item, list):
        return [_replaced(one, old, new) for one in item]
    if isinstance(item, Mapping):
        return {name: _replaced(one, old, new) for name, one in item.items()}
    return new if item == old else item


def _done(probes: tuple[StateProbe, ...], write: ExpectedWrite) -> Callable[[Results], Conclusion]:
    return lambda _: Conclusion(Answer("Done."), "Done.", writes=(write,), probes=probes)
