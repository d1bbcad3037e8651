"""Tasks: what is asked for, how it is verified, and what the user says on the way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from turnwise.types.tools import ToolCall, ToolResult


class Difficulty(StrEnum):
    """How long a task should take; sets the turn limit unless the task has its own."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


MAX_TURNS = {Difficulty.EASY: 5, Difficulty.MEDIUM: 8, Difficulty.HARD: 10}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a task's prompt."""

    role: str
    content: str


class Matcher(StrEnum):
    """How a final answer is compared with the truth; docs/guides/rewards.md has the rules."""

    EXACT = "exact"
    NORMALISED = "normalised"
    NUMERIC = "numeric"
    ONE_OF = "one_of"
    REGEX = "regex"
    JSON_SUBSET = "json_subset"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model's final message must say."""

    value: Any
    """Text; a number for NUMERIC; a list of texts for ONE_OF; a JSON value for JSON_SUBSET."""
    matcher: Matcher = Matcher.NORMALISED
    tolerance: float | None = None
    """NUMERIC: the largest deviation, relative to the value; absolute if the value is within ±1. None: 0 for
    an integer, 1% for any other number."""
    unit: str = ""
    """NUMERIC: `%`, `$` or a word the number may carry; another unit is wrong."""

    @property
    def deviation(self) -> float:
        """The tolerance, with None resolved."""
        if self.tolerance is not None:
            return self.tolerance
        return 0.0 if isinstance(self.value, int) else 0.01


def answer_of(value: Any) -> Answer:
    """Return the answer for a plain value: a number, a list of texts, a JSON object or a text."""
    match value:
        case Answer():
            return value
        case int() | float() if not isinstance(value, bool):
            return Answer(value, Matcher.NUMERIC)
        case list() | tuple():
            return Answer(list(value), Matcher.ONE_OF)
        case Mapping():
            return Answer(dict(value), Matcher.JSON_SUBSET)
    return Answer(str(value))


@dataclass(frozen=True, slots=True)
class ExpectedWrite:
    """A change that the episode must make: the tool, and arguments the call must contain."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StateProbe:
    """A call made after the last turn, and what its result must be, contain or lack."""

    tool: str
    arguments: Mapping[str, Any]
    contains: str = ""
    """Empty: any result without `lacks` holds."""
    lacks: str = ""
    """What the episode must have removed; empty: nothing."""
    equals: str = ""
    """The whole result, space around it aside; empty: any."""

    def accepts(self, content: str, *, is_error: bool) -> bool:
        """Return whether a result is as expected. An error never is: it does not prove a removal."""
        is_gone = not self.lacks or self.lacks not in content
        is_whole = not self.equals or self.equals.strip() == content.strip()
        return not is_error and self.contains in content and is_gone and is_whole

    @property
    def expected(self) -> str:
        """A result that is as expected; empty if it only must lack something."""
        return self.equals or self.contains


@dataclass(frozen=True, slots=True)
class Truth:
    """What a task's rewards are computed from; an absent part is not checked."""

    answer: Answer | None = None
    writes: tuple[ExpectedWrite, ...] | None = None
    """Exactly these changes, each once. None: changes are not checked. (): no change is allowed."""
    probes: tuple[StateProbe, ...] = ()
    required_tools: tuple[str, ...] = ()
    min_tool_calls: int = 0
    """The smallest number of successful calls to any tools; repeated calls count."""
    forbidden_tools: tuple[str, ...] = ()
    milestones: tuple[str, ...] = ()
    """Tools whose first successful call is rewarded, in any order."""
    rubric: str = ""
    """Instructions for the `judge` reward."""
    ends_with: str = ""
    """The tool whose successful call ends the exchange; empty: an answer in words does."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A further user message of a task, sent after the model has answered the one before."""

    message: str
    truth: Truth
    """What must hold when this message has been answered; it is checked against this exchange only."""
    tools: tuple[str, ...] | None = None
    """Shell patterns of the tools offered from this message on; None: as before."""


@dataclass(frozen=True, slots=True)
class UserRule:
    """What a scripted user says when the model says something that a pattern matches."""

    when: str
    """A regular expression that is searched for in what the model says."""
    say: str
    times: int = 1
    """How often it answers in one episode."""


@dataclass(frozen=True, slots=True)
class ScriptedUser:
    """A user that replies to what the model says without a call, by the first rule that matches.

    Where no rule matches, what the model says is its answer.
    """

    rules: tuple[UserRule, ...]
    max_replies: int = 8
    """The most replies in one episode; after that, what the model says is its answer."""


@dataclass(frozen=True, slots=True)
class ModelUser:
    """A user that a language model plays: it replies to whatever the model says without a call.

    The recipe's section `[user]` names the model. The exchange ends when the user says `END_WORD`.
    """

    persona: str
    """Who the user is and how they talk."""
    goal: str
    """What the user wants, with every fact that they may be asked for."""
    max_replies: int = 8
    """The most replies in one episode; after that, what the model says is its answer."""


END_WORD = "[[END-OF-CONVERSATION]]"
"""A user that a model plays says this in place of a reply to end the exchange."""


@dataclass(frozen=True, slots=True)
class DemoTurn:
    """One turn of a demonstration: the model's text, its calls and their results."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    user: str = ""
    """What the user says before it. A `ModelUser` says exactly this when the demonstration is played; for any
    other user it is for readers, as the task's `conversation` and `user` determine it."""

    @property
    def lacks_results(self) -> bool:
        """Whether it lists calls and none of their results."""
        return bool(self.calls) and not self.results


@dataclass(frozen=True, slots=True, init=False)
class Task:
    """Something to do with tools, and how to verify that it was done.

    Task(prompt="What does ACME cost?", answer=12.5)
    """

    id: str
    """Unique in its file; if empty, a file or a run derives it from the content."""
    prompt: tuple[Message, ...]
    servers: tuple[str, ...]
    """The servers that an episode uses; if empty, all of them."""
    truth: Truth
    tools: tuple[str, ...] | None = None
    """Shell patterns of the servers' tools to offer; None offers all."""
    difficulty: Difficulty = Difficulty.MEDIUM
    max_turns: int | None = None
    seed: int = 0
    family: str = ""
    split: str = "train"
    demonstration: tuple[DemoTurn, ...] = ()
    world: str = ""
    """The world that its truth was computed in (`embedded`); empty if it holds in any."""
    conversation: tuple[FollowUp, ...] = ()
    """Further user messages, in order. The state of the servers carries over from one to the next."""
    user: ScriptedUser | ModelUser | None = None
    """Replies to questions that the model asks back; None: whatever it says without a call is its answer."""

    def __init__(
        self,
        id: str = "",
        prompt: str | Sequence[Message] = (),
        servers: Sequence[str] = (),
        truth: Truth | None = None,
        tools: Sequence[str] | None = None,
        difficulty: Difficulty = Difficulty.MEDIUM,
        max_turns: int | None = None,
        seed: int = 0,
        family: str = "",
        split: str = "train",
        demonstration: Sequence[DemoTurn] = (),
        world: str = "",
        conversation: Sequence[FollowUp] = (),
        user: ScriptedUser | ModelUser | None = None,
        *,
        answer: object = None,
    ) -> None:
        """A prompt that is text is one user message; `answer` is short for a truth with only an answer."""
        if answer is not None and truth is not None:
            raise ValueError(f"task {id!r}: give either answer or truth")
        fields = {
            "id": id,
            "prompt": (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt),
            "servers": tuple(servers),
            "truth": truth or Truth(None if answer is None else answer_of(answer)),
            "tools": None if tools is None else tuple(tools),
            "difficulty": Difficulty(difficulty),
            "max_turns": max_turns,
            "seed": seed,
            "family": family,
            "split": split,
            "demonstration": tuple(demonstration),
            "world": world,
            "conversation": tuple(conversation),
            "user": user,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)  # the class is frozen

    @property
    def turn_limit(self) -> int:
        """The most turns of an episode, over all user messages."""
        return self.max_turns or MAX_TURNS[self.difficulty] * len(self.truths)

    @property
    def truths(self) -> tuple[Truth, ...]:
        """What must hold after each user message: the prompt, then those of the conversation."""
        return (self.truth, *(follow_up.truth for follow_up in self.conversation))

    def tools_at(self, message: int) -> tuple[str, ...] | None:
        """Shell patterns of the tools offered during a message, counted from 0; None offers all."""
        patterns = self.tools
        for follow_up in self.conversation[:message]:
            patterns = patterns if follow_up.tools is None else follow_up.tools
        return patterns

    @property
    def leased_tools(self) -> tuple[str, ...] | None:
        """Shell patterns of all tools that any of its messages offers; None: all."""
        patterns: list[str] = []
        for message in range(len(self.truths)):
            offered = self.tools_at(message)
            if offered is None:
                return None
            patterns += offered
        return tuple(dict.fromkeys(patterns))

    @property
    def lacks_results(self) -> bool:
        """Whether its demonstration has calls whose results are not in the file."""
        return any(turn.lacks_results for turn in self.demonstration)
