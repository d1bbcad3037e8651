"""Programs about tools that compute: inputs that were drawn, and what the tool makes of them."""

import re
from collections.abc import Iterator
from dataclasses import replace

from turnwise.explore import algebra
from turnwise.explore.algebra.query import Query
from turnwise.explore.programs.draft import Draft
from turnwise.explore.programs.knowledge import Knowledge, entities_of
from turnwise.explore.programs.program import Asked, Program, Step, flat
from turnwise.explore.programs.reading_programs import Way, computed
from turnwise.explore.records import Relation

_PER_ANSWER = 3
_LONG = re.compile(r"-?\d+\.\d{4,}")


def computations(known: Knowledge) -> Iterator[Draft]:
    """Yield questions about the results of pure tools."""
    for facts in known.survey.readers():
        if not facts.is_pure:
            continue
        for answer in facts.answers:
            step = Step(answer.call.server, answer.call.tool, answer.call.arguments)
            for relation in answer.relations:
                for query in known.queries(relation)[:_PER_ANSWER]:
                    if query.operation == "field" or relation.is_list:
                        asked = _rounded(query, relation)
                        program = Program("compute", (step,), (Asked(0, asked),))
                        way = Way((step,), answer.call, {}, {}, ())
                        values = (*flat(answer.call.arguments).values(), *(one.value for one in query.where))
                        wordings = computed(known, way, relation, asked, program)
                        whole = " ".join(map(str, values))
                        yield Draft(program, wordings, (*entities_of([f"{facts.tool.name} {whole}"]),))


def _rounded(query: Query, relation: Relation) -> Query:
    """Return the query of a number with many decimals as one of a rounded number."""
    try:
        value = str(algebra.answer(query, [relation]))
    except (LookupError, ValueError):
        return query
    return replace(query, kind="number", function="rounded") if _LONG.fullmatch(value) else query
