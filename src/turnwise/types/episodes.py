"""Episodes as they were played: turns, trajectories and their rewards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from turnwise.types.tasks import StateProbe, Task
from turnwise.types.tools import ServerLoss, Tool, ToolCall, ToolResult

Entry = TypeVar("Entry")


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
    hint: str = ""
    """What to write instead, or where reading stopped; shown to the model if `rollout.hints` is on."""
    written: str = ""
    """The malformed part of the turn, without what the model thought or said before it."""
    mended: tuple[ToolCall, ...] = ()
    """The calls that were meant, if Python's True, False and None are all that is wrong."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed completion: calls, a final text or an error, each with optional reasoning."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    error: FormatError | None = None
    is_mended: bool = False
    """Whether Python's literals in the calls were read as JSON's."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A turn, or a call, that is wrong in itself: an environment's `step` does not get it."""

    kind: str
    """A `FormatErrorKind`, or `unknown_tool` or `bad_arguments` for a call."""
    answer: str
    """What the model reads unless the environment answers."""
    text: str = ""
    """What the model wrote; empty for a call."""
    call: ToolCall | None = None


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The observation of a call that failed because of the model."""

    text: str


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
    is_given: bool = False
    """Whether it was played from the task's demonstration. The model reads it and is never trained on it: its
    ids end `new_ids`, and its completion is empty."""

    @property
    def num_sampled(self) -> int:
        return len(self.completion.token_ids) if self.usage is None else self.usage[1]


class Stop(StrEnum):
    """Why an episode ended. The first ten are scored; the rest is infrastructure.

    The time of calls is the model's. All other time measures the machine: a slow moment must never become a
    reward. Turns and tokens, which the model can waste, have separate limits.
    """

    ANSWERED = "answered"
    """The model gave an answer: a turn without a call."""
    ENDED = "ended"
    """The environment ended the episode."""
    ENDED_BY_CALL = "ended_by_call"
    """The model called the tool that `truth.ends_with` names."""
    ENDED_BY_USER = "ended_by_user"
    """The user that a model plays ended the conversation; the model's last text is its answer."""
    MAX_TURNS = "max_turns"
    """The task's turns are used up."""
    REPEATED = "repeated"
    """The model repeated itself: see `rollout.max_repeats`."""
    TRUNCATED = "truncated"
    """A turn reached `rollout.tokens_per_turn`."""
    CONTEXT_FULL = "context_full"
    """The episode reached `rollout.tokens_per_episode`."""
    SLOW_CALLS = "slow_calls"
    """Its calls took `rollout.seconds`, without the time that they waited for us."""
    BROKE_SERVER = "broke_server"
    """A call broke a server or an environment, and a fresh one when the episode was repeated."""
    TIME_UP = "time_up"
    """Everything but its calls took `rollout.seconds`."""
    TOOL_DOWN = "tool_down"
    """A call failed through no fault of the model."""
    ENGINE_DOWN = "engine_down"
    """The engine failed."""
    REWARD_DOWN = "reward_down"
    """A reward could not be computed, for example because a judge was unreachable."""
    ENVIRONMENT_DOWN = "environment_down"
    """The environment raised EnvironmentDown, or one of its methods took too long."""

    USER_DOWN = "user_down"
    """The model that plays the user failed."""

    @property
    def is_finished(self) -> bool:
        """Whether the episode was played to its end and not cut off by a limit or a fault."""
        return self in (Stop.ANSWERED, Stop.ENDED_BY_CALL, Stop.ENDED_BY_USER, Stop.ENDED)

    @property
    def is_forfeit(self) -> bool:
        """Whether the model's calls ended the episode: it has failed, and nothing can be asked any more."""
        return self in (Stop.SLOW_CALLS, Stop.BROKE_SERVER)

    @property
    def is_infrastructure(self) -> bool:
        return self in _INFRASTRUCTURE


_INFRASTRUCTURE = {
    Stop.TIME_UP,
    Stop.TOOL_DOWN,
    Stop.ENGINE_DOWN,
    Stop.REWARD_DOWN,
    Stop.ENVIRONMENT_DOWN,
    Stop.USER_DOWN,
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
    """The numbers that the environment's `score()` returned; empty without an environment."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """The texts that it returned, which explain the numbers."""
    endings: tuple[Stop, ...] = ()
    """How the exchanges of earlier user messages ended; `stop` says how the last one did."""
    is_redrawn: bool = False
    """Whether an attempt of it was lost to infrastructure whose turns could not be repeated."""
    last_reply: str = ""
    """What the environment replied to the model's last text when it ended the episode: no turn reads it."""

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
    def num_given(self) -> int:
        """How many turns of the task's demonstration it started with; 0 if it started at the beginning."""
        return sum(turn.is_given for turn in self.turns)

    @property
    def final_text(self) -> str:
        """The model's answer; empty if the episode ended without one."""
        has_answer = self.stop in (Stop.ANSWERED, Stop.ENDED_BY_USER, Stop.ENDED)
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
    lost: Trajectory | None = None
    """What was played; None if the episode did not start."""


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

    @property
    def num_given(self) -> int:
        """How many turns of the task's demonstration its episodes started with, all of them with the same."""
        return max((trajectory.num_given for trajectory in self.trajectories), default=0)
