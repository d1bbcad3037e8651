"""A draft from one or more calls whose inputs were drawn and whose answers are numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from turnwise.explore.first.computing.answer_number import concluding, read_number
from turnwise.explore.first.document import Path, document_of
from turnwise.explore.first.draft import Draft
from turnwise.explore.first.query import Form
from turnwise.explore.first.wording.questions import with_form
from turnwise.tasks.proof.case import Case, Results, call
from turnwise.types import Difficulty, Tool


@dataclass(frozen=True, slots=True)
class Computation:
    """Calls of one tool, made in one turn; the answer is the sum of their numbers."""

    shape: str
    tool: Tool
    calls: tuple[Mapping[str, object], ...]
    path: Path
    """Where the number is in an answer."""
    form: Form
    wordings: tuple[str, ...]
    """Sentences without the form of the answer, the first two with the tool's name."""
    key: str
    difficulty: Difficulty = Difficulty.EASY

    def draft(self) -> Draft:
        def read(results: Results) -> float:
            return sum(read_number(result, self.path) for result in results)

        steps = tuple(call(self.tool.name, **arguments) for arguments in self.calls)
        return Draft(
            shape=self.shape,
            case=Case({}, "", (steps,), concluding(read, self.form), parse=document_of),
            questions=with_form(self.wordings, self.form),
            tools=(self.tool.name,) * len(self.calls),
            servers=(self.tool.server,),
            entities=(self.key,),
            difficulty=self.difficulty,
            key=f"{self.shape} {self.tool.name} {self.key}",
        )
