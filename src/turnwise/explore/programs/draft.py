"""A program in words, before it is verified."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.explore.programs.program import Program, call_of, result_of
from turnwise.explore.verdicts.answers import answer_of_value
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep
from turnwise.types import Answer, Difficulty, Matcher, StateProbe

DONE = "Done."


@dataclass(frozen=True, slots=True)
class Draft:
    """A program, and wordings of the question that it answers."""

    program: Program
    questions: tuple[str, ...]
    """Wordings of one question, each with the form of the answer; see `wordings_for`."""
    entities: tuple[str, ...]
    """The values that the question names: test tasks have entities that training never saw."""
    worth: float = 0.0
    """How much a person would want to ask it; the higher the better."""

    @property
    def shape(self) -> str:
        return self.program.shape

    @property
    def tools(self) -> tuple[str, ...]:
        """The plan's tools in order, repeated calls included."""
        return self.program.tools

    @property
    def servers(self) -> tuple[str, ...]:
        return self.program.servers

    @property
    def key(self) -> str:
        return self.program.key

    @property
    def changes_state(self) -> bool:
        return bool(self.program.changes)

    @property
    def task_id(self) -> str:
        """The same in every exploration."""
        return f"{self.shape}-{hashlib.sha256(self.key.encode()).hexdigest()[:10]}"

    @property
    def kind(self) -> tuple[str, ...]:
        return (self.shape, *self.tools)

    @property
    def difficulty(self) -> Difficulty:
        num_calls = len(self.program.steps)
        num_links = sum(len(step.taken) for step in self.program.steps)
        weight = num_calls + num_links + len(self.servers) - 1 + bool(self.program.combination)
        operations = {one.query.operation for one in self.program.asked}
        weight += bool(operations & {"extreme", "aggregate", "group"}) + (self.shape == "join")
        return Difficulty.EASY if weight <= 1 else Difficulty.MEDIUM if weight <= 3 else Difficulty.HARD

    @property
    def probes(self) -> tuple[StateProbe, ...]:
        """What shows the changes of the program."""
        return probes_of(self.program)

    @property
    def case(self) -> Case:
        """The plan, as it is played."""
        program = self.program

        def step(number: int) -> PlanStep:
            return PlanStep(
                program.steps[number].tool, lambda texts: call_of(program, number, texts).arguments
            )

        def conclude(texts: Sequence[str]) -> Conclusion:
            if program.changes:
                return Conclusion(Answer("Done", Matcher.NORMALISED), DONE, probes=self.probes)
            return Conclusion(*answer_of_value(result_of(program, texts), program.form))

        turns = tuple((step(number),) for number in range(len(program.steps)))
        return Case({}, "", turns, conclude, parse=str)


def probes_of(program: Program) -> tuple[StateProbe, ...]:
    """Return the probes of all changes, each once."""
    found: list[StateProbe] = []
    for change in program.changes:
        found += [probe for probe in change.probes if probe not in found]
    return tuple(found)
