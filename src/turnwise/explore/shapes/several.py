"""The same question about three things, and the sum of the answers."""

from collections.abc import Callable, Iterator

from turnwise.explore.compose import (
    computed_conclusion,
    document,
    drafted,
    entities_of,
    number_of,
    siblings,
    step_of,
)
from turnwise.explore.draft import Draft
from turnwise.explore.material import Material, is_number
from turnwise.explore.observation import Observation
from turnwise.explore.query import Form, Query
from turnwise.explore.wording import call_phrase, listing, located, questions
from turnwise.tasks.family import Conclusion, Results

_NUM_CALLS = 3


def several(material: Material) -> Iterator[Draft]:
    """Three calls that differ in one argument, whose answers have a number in the same place."""
    for group in siblings(material.observations):
        for start in range(0, len(group) - _NUM_CALLS + 1, _NUM_CALLS):
            yield from _summed(material, group[start : start + _NUM_CALLS])


def _summed(material: Material, chosen: list[Observation]) -> Iterator[Draft]:
    asked = [{query.key: query for query in material.asked(observation)} for observation in chosen]
    for key, query in asked[0].items():
        if not all(key in other and is_number(other[key].value) for other in asked):
            continue
        phrases = [call_phrase(seen.tool, seen.plain_arguments) for seen in chosen]
        noun = f"the sum of {listing([located(query.noun, phrase) for phrase in phrases])}"
        yield drafted(
            "several",
            turns=(tuple(step_of(observation) for observation in chosen),),
            conclude=_total(query),
            questions=questions(noun, phrases, Form.ROUNDED),
            tools=tuple(observation.tool for observation in chosen),
            entities=tuple(entity for observation in chosen for entity in entities_of(observation)),
            key=f"{' '.join(observation.key for observation in chosen)} {key}",
        )


def _total(query: Query) -> Callable[[Results], Conclusion]:
    def conclude(results: Results) -> Conclusion:
        values = [number_of(query.read(document(results, place))) for place in range(_NUM_CALLS)]
        return computed_conclusion(round(sum(values), 2))

    return conclude
