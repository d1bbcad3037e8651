"""A case: one task before it is verified, with a plan that the tools can carry out."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.types import Answer, ExpectedWrite, StateProbe, UserRule

Results = Sequence[Any]
"""Results of the calls so far, in order, as `Case.parse` returns them."""


def parsed_json(content: str) -> Any:
    """Return the data of a JSON text, or the text itself if it is not JSON."""
    try:
        return json.loads(content)
    except ValueError:
        return content


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One call of a plan; its arguments may depend on the results of earlier calls."""

    tool: str
    arguments: Callable[[Results], Mapping[str, Any]]
    is_refused: bool = False
    """Whether the tool must answer with an error, which the plan goes on from."""


def call(tool: str, /, **arguments: Any) -> PlanStep:
    """Return a step with fixed arguments."""
    return PlanStep(tool, lambda _: arguments)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The outcome of a plan: the answer, the text that states it, and the changes that must be made."""

    answer: Answer
    text: str
    writes: tuple[ExpectedWrite, ...] = ()
    probes: tuple[StateProbe, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What the plan asks the user before its first call, and when a scripted user replies to such a text."""

    text: str
    rule: UserRule


@dataclass(frozen=True, slots=True)
class Exchange:
    """The plan for one user message; results are those of all calls since the first message."""

    form: str
    """The instruction on how to answer: briefly, so that the answer can be checked."""
    turns: tuple[tuple[PlanStep, ...], ...]
    """The plan: the calls of each turn."""
    conclude: Callable[[Results], Conclusion]
    known: str | float | None = None
    """The answer according to the world itself, without the tools; None if only the tools have it."""
    required_tools: tuple[str, ...] = ()
    """As `Family.required_tools`, for a further message."""
    tools: tuple[str, ...] | None = None
    """Shell patterns of the tools offered from this message on; None: as before."""
    question: Question | None = None
    min_tool_calls: int = 0
    forbidden_tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One task of a family before verification: the plan for its prompt, and for further messages."""

    words: Mapping[str, str]
    """Values for the placeholders in the phrasings of all messages."""
    form: str
    turns: tuple[tuple[PlanStep, ...], ...]
    conclude: Callable[[Results], Conclusion]
    known: str | float | None = None
    parse: Callable[[str], Any] = parsed_json
    """Turns the text of a result into what `turns` and `conclude` read."""
    tools: tuple[str, ...] | None = None
    question: Question | None = None
    later: tuple[Exchange, ...] = ()
    """One for each further message of the family."""
    guesses: tuple["Case", ...] = ()
    """Cases with the same prompt whose plans guess what this one asks the user; they must earn nothing."""
    min_tool_calls: int = 0
    forbidden_tools: tuple[str, ...] = ()
    are_reads_open: bool = False
    """Whether other calls may find what the changes need, so that only a change cannot be left out."""

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The plan for the prompt, then those for the further messages."""
        first = Exchange(
            self.form,
            self.turns,
            self.conclude,
            self.known,
            tools=self.tools,
            question=self.question,
            min_tool_calls=self.min_tool_calls,
            forbidden_tools=self.forbidden_tools,
        )
        return (first, *self.later)
