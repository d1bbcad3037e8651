"""The nouns every other module speaks in: frozen data, standard library only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

Entry = TypeVar("Entry")


class Fault(StrEnum):
    """Whose doing a failed call was; only the model's own is ever rewarded or punished."""

    NONE = "none"
    MODEL = "model"
    INFRA = "infra"


class Cause(StrEnum):
    """How a tool call ended; `fault` says whose doing that was."""

    OK = "ok"
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"
    TOOL_ERROR = "tool_error"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    CLOSED = "closed"
    SPAWN_FAILED = "spawn_failed"
    BREAKER_OPEN = "breaker_open"
    BAD_REPLY = "bad_reply"
    UPSTREAM = "upstream"
    NOT_RECORDED = "not_recorded"

    @property
    def fault(self) -> Fault:
        """NONE for a result, MODEL for what the call itself brought about, INFRA for everything else."""
        if self is Cause.OK:
            return Fault.NONE
        return Fault.MODEL if self in _MODEL_CAUSES else Fault.INFRA


_MODEL_CAUSES = {Cause.UNKNOWN_TOOL, Cause.BAD_ARGUMENTS, Cause.TOOL_ERROR, Cause.TOO_LARGE}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as the model sees it: its name in this toolbox, and the schema as its server gave it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    server: str
    server_tool: str
    is_read_only: bool = False
    is_idempotent: bool = False

    @property
    def is_repeatable(self) -> bool:
        """Whether a call that may or may not have run can be made again."""
        return self.is_read_only or self.is_idempotent


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model asked for, as parsed from its tokens."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call gave: the text the model will read, and everything needed to score and to view it."""

    call_id: str
    content: str
    cause: Cause
    seconds: float
    num_retries: int = 0
    repairs: tuple[str, ...] = ()
    """Argument names mended before the call, as `given->used`."""
    is_replayed: bool = False

    @property
    def is_error(self) -> bool:
        return self.cause is not Cause.OK

    @property
    def fault(self) -> Fault:
        return self.cause.fault

    def sent(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The call's arguments under the names that the server was sent."""
        names = dict(repair.split("->", 1) for repair in self.repairs)
        return {names.get(name, name): value for name, value in arguments.items()}


@dataclass(frozen=True, slots=True)
class ServerLoss:
    """A server that could not be started, or that died under a lease."""

    server: str
    message: str
    exit_code: int | None = None
    stderr_tail: tuple[str, ...] = ()
    is_state_lost: bool = False
    """Whether the episode kept state there: it cannot go on as if nothing had happened."""


class Difficulty(StrEnum):
    """How long a task should take; it sets the turn limit where the task gives none."""

    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


MAX_TURNS = {Difficulty.EASY: 5, Difficulty.MEDIUM: 8, Difficulty.HARD: 10}


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a task's opening, before the model has said anything."""

    role: str
    content: str


class Matcher(StrEnum):
    """How a final answer is held against the truth."""

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
    """NUMERIC: largest distance, as a share of the value, or absolute where the value is within ±1."""
    unit: str = ""
    """NUMERIC: `%`, `$` or a word the number may carry; another unit is wrong."""


@dataclass(frozen=True, slots=True)
class ExpectedWrite:
    """A change that must have been made: the tool, and arguments that must be among the call's own."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StateProbe:
    """A question put to the server after the last turn; the answer's text must contain `contains`."""

    tool: str
    arguments: Mapping[str, Any]
    contains: str


@dataclass(frozen=True, slots=True)
class Truth:
    """What a task's rewards are computed from; parts that are absent are not asked for."""

    answer: Answer | None = None
    writes: tuple[ExpectedWrite, ...] | None = None
    """Exactly these changes, each once, and no others; None asks nothing, () forbids every change."""
    probes: tuple[StateProbe, ...] = ()
    required_tools: tuple[str, ...] = ()
    min_tool_calls: int = 0
    """The least number of successful calls, of any tools; repeated calls count."""
    forbidden_tools: tuple[str, ...] = ()
    milestones: tuple[str, ...] = ()
    """Tools each paid once for a first successful call, in any order."""
    rubric: str = ""
    """For a judge."""


@dataclass(frozen=True, slots=True)
class DemoTurn:
    """One turn of a demonstration: what the model should say, the calls it should make, what they gave."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def lacks_results(self) -> bool:
        """Whether it lists calls and none of their results."""
        return bool(self.calls) and not self.results


@dataclass(frozen=True, slots=True)
class Task:
    """One thing to be done with tools, and how to tell whether it was."""

    id: str
    prompt: tuple[Message, ...]
    servers: tuple[str, ...]
    truth: Truth
    tools: tuple[str, ...] | None = None
    """Shell patterns over the servers' tools; None offers them all."""
    difficulty: Difficulty = Difficulty.MEDIUM
    max_turns: int | None = None
    seed: int = 0
    family: str = ""
    split: str = "train"
    demonstration: tuple[DemoTurn, ...] = ()
    world: str = ""
    """The world its truth was computed in: `embedded`; empty: any."""

    @property
    def turn_limit(self) -> int:
        return self.max_turns or MAX_TURNS[self.difficulty]

    @property
    def lacks_results(self) -> bool:
        """Whether its demonstration has calls whose results are not in the file."""
        return any(turn.lacks_results for turn in self.demonstration)


@dataclass(frozen=True, slots=True)
class LiveServer:
    """A server whose tools call a real provider; `name` is its name in `mcp.json`."""

    name: str
    service: str
    """The provider, for people: `Slack`."""
    reads: tuple[str, ...]
    """The tools that only read there."""
    writes: Mapping[str, str]
    """The tools that change something there, and what they do."""
    may_write: bool

    @property
    def withheld(self) -> tuple[str, ...]:
        """The tools that episodes are not offered."""
        return () if self.may_write else tuple(self.writes)


class Finish(StrEnum):
    """Why the engine stopped sampling."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn; while training nothing may change the distribution but temperature."""

    max_tokens: int = 512
    temperature: float = 1.0
    """0 takes the likeliest token; the log-probs are then those of temperature 1."""
    top_p: float = 1.0
    """Below 1 only for evaluation: the recorded log-probs do not know of it."""
    stop_ids: frozenset[int] = frozenset()
    """The end-of-turn tokens; the one sampled is part of the completion, and is trained on."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What was sampled: ids, and each id's log-prob under the distribution it was drawn from."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: Finish
    policy_version: int

    def __post_init__(self) -> None:
        assert len(self.token_ids) == len(self.logprobs), "one log-prob a token"


class FormatErrorKind(StrEnum):
    """How a completion failed to be a call or an answer."""

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
    """What was wrong, in words the model can act on."""

    kind: FormatErrorKind
    message: str


@dataclass(frozen=True, slots=True)
class Parsed:
    """A completion as structure: calls, or a final text, or an error; reasoning beside any of them."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    error: FormatError | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt and what came of it.

    The prompt of turn t is everything before it plus `new_ids`, so the exact-prefix property holds by
    construction:   [new_0][completion_0][new_1][completion_1]...
    loss mask:       0...0  1.........1   0...0  1.........1
    """

    new_ids: tuple[int, ...]
    completion: Completion
    parsed: Parsed
    results: tuple[ToolResult, ...] = ()
    engine_seconds: float = 0.0
    tool_seconds: float = 0.0
    usage: tuple[int, int] | None = None
    """Prompt and completion tokens as an endpoint counted them; None where the ids are here to be counted."""

    @property
    def num_sampled(self) -> int:
        return len(self.completion.token_ids) if self.usage is None else self.usage[1]


class Stop(StrEnum):
    """Why an episode ended. The first four are the model's doing, the rest infrastructure's.

    Running out of wall time counts as infrastructure: a clock measures the machine, and a slow moment of it
    must never become a reward. What the model can waste, turns and tokens, has limits of its own.
    """

    ANSWERED = "answered"
    MAX_TURNS = "max_turns"
    TRUNCATED = "truncated"
    CONTEXT_FULL = "context_full"
    TIME_UP = "time_up"
    TOOL_DOWN = "tool_down"
    ENGINE_DOWN = "engine_down"
    REWARD_DOWN = "reward_down"

    @property
    def is_infrastructure(self) -> bool:
        return self in (Stop.TIME_UP, Stop.TOOL_DOWN, Stop.ENGINE_DOWN, Stop.REWARD_DOWN)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What the server said to a probe after the last turn."""

    probe: StateProbe
    content: str
    is_error: bool


def joined(parts: Iterable[tuple[Entry, ...]]) -> tuple[Entry, ...]:
    """One after the other; whole tuples at a time, since a batch has millions of entries."""
    entries: list[Entry] = []
    for part in parts:
        entries += part
    return tuple(entries)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode as it was played: enough to train on, to look at, and to replay."""

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
    """That its tokens were sampled at."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        return joined(each for turn in self.turns for each in (turn.new_ids, turn.completion.token_ids))

    @property
    def loss_mask(self) -> tuple[int, ...]:
        """1 where the model chose the token, 0 on prompts, tool output and template glue."""
        return joined(
            (flag,) * len(ids)
            for turn in self.turns
            for flag, ids in ((0, turn.new_ids), (1, turn.completion.token_ids))
        )

    @property
    def logprobs(self) -> tuple[float, ...]:
        """As sampled; 0 where the mask is 0."""
        return joined(
            each for turn in self.turns for each in ((0.0,) * len(turn.new_ids), turn.completion.logprobs)
        )

    @property
    def final_text(self) -> str:
        """The model's answer; empty if the episode ended without one."""
        return self.turns[-1].parsed.text if self.turns and self.stop is Stop.ANSWERED else ""

    @property
    def calls(self) -> tuple[tuple[ToolCall, ToolResult], ...]:
        """Every call that was made, with its result, in order."""
        return tuple(
            pair for turn in self.turns for pair in zip(turn.parsed.calls, turn.results, strict=False)
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """An episode that cannot be trained on, and why; it is counted, never scored."""

    task_id: str
    stop: Stop
    message: str


@dataclass(frozen=True, slots=True)
class Reward:
    """A score and what it is made of."""

    total: float
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Group:
    """All members of one task, whole: the unit that advantages are computed over."""

    task: Task
    trajectories: tuple[Trajectory, ...]
    rewards: tuple[Reward, ...]
