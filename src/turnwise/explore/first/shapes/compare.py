"""The same question about two things, and the difference or ratio of the two answers."""

import itertools
from collections.abc import Callable, Iterator

from turnwise.explore.first.arithmetic import ARITHMETIC, Arithmetic, form_of_result
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
from turnwise.explore.first.query import Measure, Query
from turnwise.explore.first.wording import call_phrase, located, questions
from turnwise.tasks.proof.case import Conclusion, Results

_NUM_SIBLINGS = 6
_OPERATIONS = {
    Measure.NONE: (),
    Measure.COUNT: ("difference", "addition"),
    Measure.DETAIL: ("difference",),
    Measure.RATE: ("difference", "ratio"),
    Measure.AMOUNT: ("difference", "addition", "ratio", "percentage"),
}
"""By what is measured: a percentage of two numbers of files is correct, but nobody asks for it. A change is
what one thing goes through in time, and these are two things."""


def compare(material: Material) -> Iterator[Draft]:
    """Pairs of calls that differ in one argument, whose answers have a number in the same place."""
    for group in siblings(material):
        for first, second in itertools.permutations(group[:_NUM_SIBLINGS], 2):
            for query, other in shared_numbers(material, first, second):
                phrases = [call_phrase(seen.tool, seen.plain_arguments) for seen in (first, second)]
                for name in _OPERATIONS[query.measure]:
                    operation = ARITHMETIC[name]
                    result = _result(operation, query, other)
                    if result is None or (name == "addition" and first.number > second.number):
                        continue
                    if name == "addition" and phrases[0].order:
                        continue  # nobody adds up how often two things are found
                    noun = operation.noun(*(located(query.noun, phrase) for phrase in phrases))
                    yield drafted(
                        "compare",
                        turns=((step_of(first), step_of(second)),),
                        conclude=_conclude(query, operation),
                        questions=questions(noun, phrases, form_of_result(result)),
                        tools=(first.tool, second.tool),
                        entities=material.entities(first, second),
                        key=f"{name} {first.key} {second.key} {query.key}",
                    )


def _result(operation: Arithmetic, query: Query, other: Query) -> float | None:
    try:
        return operation.value(number_of(query.value), number_of(other.value))
    except ValueError:
        return None


def _conclude(query: Query, operation: Arithmetic) -> Callable[[Results], Conclusion]:
    def conclude(results: Results) -> Conclusion:
        first, second = (number_of(query.read(document(results, place))) for place in range(2))
        return computed_conclusion(operation.value(first, second))

    return conclude
