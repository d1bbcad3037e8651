"""The same question about two things, and the difference or ratio of the two answers."""

import itertools
from collections.abc import Iterator

from turnwise.explore.arithmetic import ARITHMETIC
from turnwise.explore.compose import computed_conclusion, drafted, entities_of, siblings, step_of
from turnwise.explore.draft import Draft
from turnwise.explore.material import Material, is_number
from turnwise.explore.query import Form, Query
from turnwise.explore.wording import call_phrase, questions


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
                    noun = operation.noun(f"{query.noun} in {phrases[0].described}", f"that in {phrases[1].described}")
                    yield drafted(
                        "compare",
                        turns=((step_of(first), step_of(second)),),
                        conclude=lambda results, query=query, operation=operation: computed_conclusion(
                            operation.compute(_number(query, results[0]), _number(query, results[1]))
                        ),
                        questions=questions(noun, [], Form.ROUNDED),
                        tools=(first.tool, second.tool),
                        entities=(*entities_of(first), *entities_of(second)),
                        key=f"{name} {first.key} {second.key} {query.key}",
                    )


def _number(query: Query, document: object) -> float:
    value = query.read(document)  # type: ignore[arg-type]  # results are documents: `Case.parse`
    if not is_number(value):
        raise ValueError(f"{value!r} is not a number")
    return float(value)
