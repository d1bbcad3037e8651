"""Programs about tools that compute: inputs that were drawn, and what the tool makes of them."""

from collections.abc import Iterator

from turnwise.explore.second import algebra
from turnwise.explore.second.algebra.things import Things
from turnwise.explore.second.programs.draft import Draft
from turnwise.explore.second.programs.knowledge import Knowledge, entities_of
from turnwise.explore.second.programs.program import Asked, Program, Step, flat
from turnwise.explore.second.wording import questions
from turnwise.explore.second.wording.call_phrase import object_of, order

_PER_ANSWER = 3


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
                        program = Program("compute", (step,), (Asked(0, query),))
                        said = known.said(facts.tool.name, answer.call.arguments, {}, relation.noun)
                        things = Things(relation.noun or object_of(facts.tool))
                        phrase = algebra.phrase(query, things)
                        values = (*flat(answer.call.arguments).values(), *(one.value for one in query.where))
                        wordings = questions.compute(order(facts.tool, said), phrase, program.form)
                        whole = " ".join(map(str, values))
                        yield Draft(program, wordings, (*entities_of([f"{facts.tool.name} {whole}"]),))
