"""The same question about two things, and the difference or ratio of the two answers."""

import itertools
from collections.abc import Callable, Iterator

from turnwise.explore.arithmetic import ARITHMETIC, Arithmetic
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
from turnwise.explore.query import Query
from turnwise.explore.wording import call_phrase, located, questions
from turnwise.tasks.family import Conclusion, Results


def compare(material: Material) -> Iterator[Draft]:
    """Pairs of calls that differ in one argument, whose answers have a number in the same place."""
    for group in siblings(material.observations):
        for first, second in itertools.pairwise(group):
            others = {query.key: query for query in material.asked(second)}
            for query in material.asked(first):
                other = others.get(query.key)
                if other is None or not is_number(query.value) or not is_number(other.value):
                    continue
                phrases = [call_phrase(seen.tool, seen.plain_arguments) for seen in (first, second)]
                for name, operation in ARITHMETIC.items():
                    noun = operation.noun(*(located(query.noun, phrase) for phrase in phrases))
                    yield drafted(
                        "compare",
                        turns=((step_of(first), step_of(second)),),
                        conclude=_conclude(query, operation),
                        questions=questions(noun, phrases, operation.form),
                        tools=(first.tool, second.tool),
                        entities=(*entities_of(first), *entities_of(second)),
                        key=f"{name} {first.key} {second.key} {query.key}",
                    )


def _conclude(query: Query, operation: Arithmetic) -> Callable[[Results], Conclusion]:
    def conclude(results: Results) -> Conclusion:
        first, second = (number_of(query.read(document(results, place))) for place in range(2))
        return computed_conclusion(operation.value(first, second))

    return conclude
