"""A program over tool calls that was composed from observations, before it is verified."""

from dataclasses import dataclass

from turnwise.tasks.proof.case import Case
from turnwise.types import Difficulty


@dataclass(frozen=True, slots=True)
class Draft:
    """A plan with its conclusion (`case`), and wordings of the question that it answers."""

    shape: str
    case: Case
    questions: tuple[str, ...]
    """Different wordings of the same question, each with the form of the answer."""
    tools: tuple[str, ...]
    """The plan's tools in order, repeated calls included."""
    servers: tuple[str, ...]
    entities: tuple[str, ...]
    """The values that the question names: held-out tasks have entities that training never saw."""
    difficulty: Difficulty
    key: str
    """The same for the same program: duplicates are removed by it."""
    changes_state: bool = False
    """Whether a call of the plan changes something: it is then verified in sessions of its own."""
