"""The same question about three things, and the sum of the answers."""

from collections.abc import Callable, Iterator, Sequence

from turnwise.explore.first.arithmetic import form_of_result
from turnwise.explore.first.compose import (
    computed_conclusion,
    document,
    drafted,
    number_of,
    shared_numbers,
    siblings,
    step_of,
)
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.material import Material
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.query import ADDITIVE, Query
from turnwise.explore.first.wording import call_phrase, listing, located, questions
from turnwise.tasks.proof.case import Conclusion, Results

_NUM_CALLS = 3


def several(material: Material) -> Iterator[Draft]:
    """Three calls that differ in one argument, whose answers have a number in the same place."""
    for group in siblings(material):
        for start in range(0, len(group) - _NUM_CALLS + 1, _NUM_CALLS):
            yield from _summed(material, group[start : start + _NUM_CALLS])


def _summed(material: Material, chosen: list[Observation]) -> Iterator[Draft]:
    shared = [{query.key for query, _ in shared_numbers(material, chosen[0], other)} for other in chosen[1:]]
    for query in material.asked(chosen[0]):
        key = query.key
        if query.measure not in ADDITIVE or not all(key in keys for keys in shared):
            continue
        phrases = [call_phrase(seen.tool, seen.plain_arguments) for seen in chosen]
        noun = f"the sum of {listing([located(query.noun, phrase) for phrase in phrases])}"
        yield drafted(
            "several",
            turns=(tuple(step_of(observation) for observation in chosen),),
            conclude=_total(query),
            questions=questions(noun, phrases, form_of_result(number_of(query.value))),
            tools=tuple(observation.tool for observation in chosen),
            entities=material.entities(*chosen),
            key=f"{' '.join(observation.key for observation in chosen)} {key}",
        )


def total_of(values: Sequence[float]) -> float:
    """Return the sum; a sum of whole numbers is whole."""
    total = sum(values)
    return total if isinstance(total, int) else round(total, 2)


def _total(query: Query) -> Callable[[Results], Conclusion]:
    def conclude(results: Results) -> Conclusion:
        values = [number_of(query.read(document(results, place))) for place in range(_NUM_CALLS)]
        return computed_conclusion(total_of(values))

    return conclude
