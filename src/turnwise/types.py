"""The data types that every other module uses: tools, tasks, turns, trajectories, groups."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

Entry = TypeVar("Entry")


class Fault(StrEnum):
    """Who is to blame for a failed call. Only the model's own faults affect its reward."""

    NONE = "none"
    """The call succeeded."""
    MODEL = "model"
    """The call itself was wrong: the model sees the error and is scored."""
    INFRA = "infra"
    """Servers, network or limits of ours failed: the episode is dropped and played again."""


class Cause(StrEnum):
    """How a tool call ended; `fault` says who is to blame."""

    OK = "ok"
    UNKNOWN_TOOL = "unknown_tool"
    """The episode has no tool of that name."""
    BAD_ARGUMENTS = "bad_arguments"
    """The arguments do not fit the tool's schema; the server was not asked."""
    TOOL_ERROR = "tool_error"
    """The tool ran and reported an error."""
    TOO_LARGE = "too_large"
    """The arguments are larger than a call may be."""
    TIMEOUT = "timeout"
    """No reply within the server's time limit."""
    CLOSED = "closed"
    """The connection ended before the reply."""
    SPAWN_FAILED = "spawn_failed"
    """The server could not be started or reached."""
    BREAKER_OPEN = "breaker_open"
    """The server failed too often, so calls to it are refused for a while."""
    BAD_REPLY = "bad_reply"
    """The reply was not valid MCP, or too large."""
    UPSTREAM = "upstream"
    """The server reported that a provider behind it failed."""
    NOT_RECORDED = "not_recorded"
    """The cassette that is replayed holds no such call."""

    @property
    def fault(self) -> Fault:
        """NONE for a result, MODEL for a mistake in the call itself, INFRA for everything else."""
        if self is Cause.OK:
            return Fault.NONE
        return Fault.MODEL if self in _MODEL_CAUSES else Fault.INFRA


_MODEL_CAUSES = {Cause.UNKNOWN_TOOL, Cause.BAD_ARGUMENTS, Cause.TOOL_ERROR, Cause.TOO_LARGE}


def qualified_name(server: str, tool: str) -> str:
    """Return `server__tool`; characters of the server that model APIs do not allow become `_`."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', server)}__{tool}"


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as the model sees it: its name in this episode and the schema its server declares."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    server: str
    server_tool: str
    is_read_only: bool = False
    is_idempotent: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether a call can be retried if it is unknown whether it ran."""
        return self.is_read_only or self.is_idempotent

    @property
    def qualified_name(self) -> str:
        """The name it gets if several servers have a tool of that name."""
        return qualified_name(self.server, self.server_tool)

    def is_named_by(self, patterns: Sequence[str] | None) -> bool:
        """Whether a shell pattern matches its name, its server's name for it or `server__tool`; None: all."""
        if patterns is None:
            return True
        names = (self.name, self.server_tool, self.qualified_name)
        return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call parsed from the model's tokens."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one call: the text the model reads, and what scoring and viewing need."""

    call_id: str
    content: str
    cause: Cause
    seconds: float
    num_retries: int = 0
    repairs: tuple[str, ...] = ()
    """Argument names repaired before the call, as `given->used`."""
    is_replayed: bool = False

    @property
    def is_error(self) -> bool:
        return self.cause is not Cause.OK

    @property
    def fault(self) -> Fault:
        return self.cause.fault

    def sent(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The call's arguments under the names that were sent to the server."""
        names = dict(repair.split("->", 1) for repair in self.repairs)
        return {names.get(name, name): value for name, value in arguments.items()}


@dataclass(frozen=True, slots=True)
class ServerLoss:
    """A server that could not be started, or that died during a lease."""

    server: str
    message: str
    exit_code: int | None = None
    stderr_tail: tuple[str, ...] = ()
    is_state_lost: bool = False
    """Whether the episode had state there. If so, it cannot continue on a restarted server."""


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
    tolerance: float = 0.01
    """NUMERIC: the largest deviation, relative to the value; absolute if the value is within ±1."""
    unit: str = ""
    """NUMERIC: `%`, `$` or a word the number may carry; another unit is wrong."""


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
    """A call made after the last turn; its result must contain `contains` and must not contain `lacks`."""

    tool: str
    arguments: Mapping[str, Any]
    contains: str = ""
    """Empty: any result without `lacks` holds."""
    lacks: str = ""
    """What the episode must have removed; empty: nothing."""

    def accepts(self, content: str, *, is_error: bool) -> bool:
        """Return whether a result is as expected. An error never is: it does not prove a removal."""
        is_gone = not self.lacks or self.lacks not in content
        return not is_error and self.contains in content and is_gone


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
class DemoTurn:
    """One turn of a demonstration: the model's text, its calls and their results."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    user: str = ""
    """What the user says before it, for readers: the task's `conversation` and `user` determine it."""

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
    user: ScriptedUser | None = None
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
        user: ScriptedUser | None = None,
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


@dataclass(frozen=True, slots=True)
class LiveServer:
    """One of our servers that calls a real provider; `name` is its name in `mcp.json`."""

    name: str
    service: str
    """The provider's display name, such as `Slack`."""
    reads: tuple[str, ...]
    """Tools that only read."""
    writes: Mapping[str, str]
    """Tools that change something at the provider, and what they do."""
    may_write: bool

    @property
    def withheld(self) -> tuple[str, ...]:
        """Tools that episodes are not offered."""
        return () if self.may_write else tuple(self.writes)


class Finish(StrEnum):
    """Why the engine stopped sampling."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are sampled. In training, only the temperature may change the distribution."""

    max_tokens: int = 512
    temperature: float = 1.0
    """0 takes the most likely token; log-probs are then those at temperature 1."""
    top_p: float = 1.0
    """Below 1 only in evaluations: recorded log-probs ignore it."""
    stop_ids: frozenset[int] = frozenset()
    """End-of-turn tokens. The one sampled is part of the completion and is trained on."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Sampled token ids, with the log-prob of each under the distribution it was drawn from."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish
    policy_version: int

    def __post_init__(self) -> None:
        assert len(self.token_ids) == len(self.logprobs), "one log-prob per token"


class FormatErrorKind(StrEnum):
    """Why a completion is neither a call nor an answer."""

    BAD_JSON = "bad_json"
    UNCLOSED = "unclosed"
    TRUNCATED = "truncated"
    BAD_CALL = "bad_call"
    ARGUMENTS_NOT_OBJECT = "arguments_not_object"
    FAKED_RESPONSE = "faked_response"
    CALL_IN_THOUGHT = "call_in_thought"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class FormatError:
    """What was wrong, in words that the model can act on."""

    kind: FormatErrorKind
    message: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed completion: calls, a final text or an error, each with optional reasoning."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    error: FormatError | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt, its completion and the results of the completion's calls.

    The prompt of turn t is all ids before it plus `new_ids`, so a prompt always begins with every earlier id:

        ids         [new_0][completion_0][new_1][completion_1]...
        loss mask    0...0  1.........1   0...0  1.........1

    `new_ids` of a later turn are the results of the calls before it, or what the user said.
    """

    new_ids: tuple[int, ...]
    completion: Completion
    parsed: Parsed
    results: tuple[ToolResult, ...] = ()
    engine_seconds: float = 0.0
    tool_seconds: float = 0.0
    usage: tuple[int, int] | None = None
    """Prompt and completion tokens as an endpoint counted them; None if the ids are known."""
    user: str = ""
    """What the user or the environment said before this turn; empty for the prompt and after tool calls."""
    message: int = 0
    """The user message that it works on: 0 for the prompt, then those of `Task.conversation`."""

    @property
    def num_sampled(self) -> int:
        return len(self.completion.token_ids) if self.usage is None else self.usage[1]


class Stop(StrEnum):
    """Why an episode ended. The first six are scored; the rest is infrastructure.

    Wall time counts as infrastructure because it measures the machine: a slow moment must never become a
    reward. Turns and tokens, which the model can waste, have limits of their own.
    """

    ANSWERED = "answered"
    """The model gave an answer: a turn without a call."""
    ENDED = "ended"
    """The environment ended the episode."""
    ENDED_BY_CALL = "ended_by_call"
    """The model called the tool that `truth.ends_with` names."""
    MAX_TURNS = "max_turns"
    """The task's turns are used up."""
    TRUNCATED = "truncated"
    """A turn reached `rollout.tokens_per_turn`."""
    CONTEXT_FULL = "context_full"
    """The episode reached `rollout.tokens_per_episode`."""
    TIME_UP = "time_up"
    """The episode took longer than `rollout.seconds`."""
    TOOL_DOWN = "tool_down"
    """A call failed through no fault of the model."""
    ENGINE_DOWN = "engine_down"
    """The engine failed."""
    REWARD_DOWN = "reward_down"
    """A reward could not be computed, for example because a judge was unreachable."""
    ENVIRONMENT_DOWN = "environment_down"
    """The environment raised EnvironmentDown, or one of its methods took too long."""

    @property
    def is_finished(self) -> bool:
        """Whether the episode was played to its end and not cut off by a limit or a fault."""
        return self in (Stop.ANSWERED, Stop.ENDED_BY_CALL, Stop.ENDED)

    @property
    def is_infrastructure(self) -> bool:
        return self in _INFRASTRUCTURE


_INFRASTRUCTURE = {
    Stop.TIME_UP,
    Stop.TOOL_DOWN,
    Stop.ENGINE_DOWN,
    Stop.REWARD_DOWN,
    Stop.ENVIRONMENT_DOWN,
}


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The server's reply to a probe."""

    probe: StateProbe
    content: str
    is_error: bool
    message: int = 0
    """The user message whose exchange it was run after, counted as in `Turn.message`."""


def joined(parts: Iterable[tuple[Entry, ...]]) -> tuple[Entry, ...]:
    """Concatenate tuples. Extending by whole tuples is fast: a batch has millions of entries."""
    entries: list[Entry] = []
    for part in parts:
        entries += part
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode as it was played: enough to train on, to view and to replay."""

    task: Task
    episode_id: str
    seed: int
    turns: tuple[Turn, ...]
    stop: Stop
    tools: tuple[Tool, ...] = ()
    probes: tuple[ProbeResult, ...] = ()
    losses: tuple[ServerLoss, ...] = ()
    seconds: float = 0.0
    queue_seconds: float = 0.0
    temperature: float = 1.0
    """The temperature its tokens were sampled at."""
    scores: Mapping[str, float] = field(default_factory=dict)
    """What the environment's `score()` returned; empty without an environment."""
    endings: tuple[Stop, ...] = ()
    """How the exchanges of earlier user messages ended; `stop` says how the last one did."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        return joined(ids for turn in self.turns for ids in (turn.new_ids, turn.completion.token_ids))

    @property
    def loss_mask(self) -> tuple[int, ...]:
        """1 for tokens the model sampled, 0 for prompts, tool output and template glue."""
        return joined(
            (flag,) * len(ids)
            for turn in self.turns
            for flag, ids in ((0, turn.new_ids), (1, turn.completion.token_ids))
        )

    @property
    def logprobs(self) -> tuple[float, ...]:
        """Log-probs as sampled; 0 where the mask is 0."""
        return joined(
            values for turn in self.turns for values in ((0.0,) * len(turn.new_ids), turn.completion.logprobs)
        )

    @property
    def final_text(self) -> str:
        """The model's answer; empty if the episode ended without one."""
        has_answer = self.stop in (Stop.ANSWERED, Stop.ENDED)
        return self.turns[-1].parsed.text if self.turns and has_answer else ""

    @property
    def calls(self) -> tuple[tuple[ToolCall, ToolResult], ...]:
        """All calls with their results, in order."""
        return tuple(
            pair for turn in self.turns for pair in zip(turn.parsed.calls, turn.results, strict=False)
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """An episode lost to infrastructure: counted, never scored."""

    task_id: str
    stop: Stop
    message: str


@dataclass(frozen=True, slots=True)
class Reward:
    """A score and the parts it is made of."""

    total: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Group:
    """All episodes of one task: the unit that advantages are computed over."""

    task: Task
    trajectories: tuple[Trajectory, ...]
    rewards: tuple[Reward, ...]
