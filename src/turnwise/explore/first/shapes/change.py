"""A change that the question asks for, shown by a probe afterwards."""

from collections.abc import Callable, Iterator

from turnwise.explore.first.change import Change
from turnwise.explore.first.compose import drafted
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.material import Material
from turnwise.explore.first.wording import write_questions
from turnwise.tasks.proof.case import Conclusion, Results, call
from turnwise.types import Answer, ExpectedWrite


def change(material: Material) -> Iterator[Draft]:
    """Every change that a tool was seen to make."""
    for made in material.changes:
        yield drafted(
            "change",
            turns=((call(made.tool.name, **made.arguments),),),
            conclude=_done(made),
            questions=write_questions(made.tool, made.arguments),
            tools=(made.tool,),
            entities=(*material.reader.of(made.tool, made.arguments), *made.entities[:1]),
            key=f"{made.tool.name} {sorted(made.arguments.items(), key=str)}",
            changes_state=True,
        )


def _done(made: Change) -> Callable[[Results], Conclusion]:
    # The probes show with which arguments.
    once = ExpectedWrite(made.tool.name, {})
    return lambda _: Conclusion(Answer("Done."), "Done.", writes=(once,), probes=made.probes)
