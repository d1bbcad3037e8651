"""The interfaces between packages: what a rollout needs of tools, engine, chat and rewards."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from turnwise.types import (
    Completion,
    Message,
    Mistake,
    Parsed,
    Reward,
    Sampling,
    ServerLoss,
    Task,
    Tool,
    ToolCall,
    ToolResult,
    Trajectory,
    Turn,
)

PROBE_TOKENS = 20_000
"""The longest result of a probe. No model reads it: what it looks for must not be cut off."""


class Environment(Protocol):
    """The other side of one episode: it sets the prompt, replies to text and scores.

    `TASK_ONLY` is the built-in one; `turnwise.worlds.environment` has those of the user's own classes.
    """

    @property
    def is_over(self) -> bool:
        """Whether it has ended the episode."""
        ...

    def posed(self, task: Task) -> Task:
        """Return the task with the prompt that this episode begins with."""
        ...

    async def hear(self, text: str) -> str:
        """Return the reply to a turn without a call; empty: the text is the answer and ends the episode."""
        ...

    async def mistaken(self, mistake: Mistake) -> str:
        """Hear of a malformed, empty or cut-off turn; return what the model reads, or "" as usual."""
        ...

    @property
    def offered(self) -> Sequence[Tool] | None:
        """The tools that it offers from its last reply on; None: those of the task."""
        ...

    async def score(self) -> Mapping[str, float | str]:
        """Return its parts of the score, by name, from 0 to 1, and texts that explain them.

        Called once, after the last turn.
        """
        ...


class EnvironmentDown(Exception):
    """The environment has failed through no fault of the model: the episode is dropped and played again."""


class EnvironmentSlow(EnvironmentDown):
    """A method of the environment took longer than it may."""


class TaskOnly:
    """The built-in environment: the prompt is the task's, a text ends the episode, the truth decides."""

    is_over = False
    offered = None

    def posed(self, task: Task) -> Task:
        return task

    async def hear(self, text: str) -> str:
        return ""

    async def mistaken(self, mistake: Mistake) -> str:
        return ""

    async def score(self) -> Mapping[str, float | str]:
        return {}


TASK_ONLY: Environment = TaskOnly()


class Toolbox(Protocol):
    """The tools of one episode, from any number of servers, for as long as its lease lasts."""

    @property
    def environment(self) -> Environment:
        """Who replies to text: TASK_ONLY for the tools of servers."""
        ...

    @property
    def tools(self) -> Sequence[Tool]: ...

    @property
    def losses(self) -> Sequence[ServerLoss]:
        """Servers that died during this lease, in the order in which that was noticed."""
        ...

    @property
    def busy_seconds(self) -> float:
        """How long at least one call has been at work, without the time that calls waited for us."""
        ...

    async def call(self, calls: Sequence[ToolCall], *, max_tokens: int | None = None) -> list[ToolResult]:
        """Run one turn's calls; results are in call order; a failed call is a result, not an exception.

        A result longer than `max_tokens` is cut; without it, than what a model may read.
        """
        ...


class EngineDown(Exception):
    """The engine has failed: an infrastructure fault for every episode that waits for it."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter on the full weights published last: adds alpha / rank · B·A to each module."""

    tensors: Mapping[str, Any]
    """Tensors by `<module>.lora_A` and `<module>.lora_B`, with module names of the plain model."""
    rank: int
    alpha: float

    def copy(self) -> "Adapter":
        """A copy that later updates do not change."""
        tensors = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return Adapter(tensors, self.rank, self.alpha)


class Engine(Protocol):
    """Samples completions. Only token ids cross this interface, in both directions."""

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn. The same prompt, sampling, seed and weights give the same tokens whatever else is
        sampled at the same time. Raises EngineDown, or ValueError for a prompt that does not fit."""
        ...

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        """Load new weights (tensors by parameter name, or an adapter); completions that start afterwards
        carry `version`."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for a completion; see `Engine.complete`."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    seed: int


@runtime_checkable
class BatchEngine(Protocol):
    """An engine whose results depend, to the last bit, only on its batches since the last `forget`."""

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion: ...

    def submit(self, asks: Sequence[Ask]) -> "list[asyncio.Future[Completion]]":
        """Submit a batch as a whole; every future ends as `complete` would. Raises EngineDown."""
        ...

    async def forget(self) -> None:
        """Drop everything cached from earlier completions."""
        ...

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class StartingEngine(Protocol):
    """An engine with its own process, which takes a while to start."""

    def begin_start(self) -> None:
        """Start it in the background; without this the first request or publication does."""
        ...

    async def wait_started(self) -> None:
        """Return once it runs. Raises EngineDown."""
        ...


@runtime_checkable
class SleepingEngine(Protocol):
    """An engine that shares its device with a trainer."""

    async def sleep(self) -> None:
        """Release memory until the next publication, if enabled; requests wait meanwhile."""
        ...


class Chat(Protocol):
    """Converts messages to token ids and back, for one model."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """The tokens that end a turn."""
        ...

    def open(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """The first prompt."""
        ...

    def extend(self, ids: Sequence[int], observations: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """The ids that follow prompt and completion `ids`, up to the start of the model's next turn.

        Observations are (tool name, content) pairs; a corrective note has the empty name.
        """
        ...

    def follow(
        self, ids: Sequence[int], text: str, added: Sequence[Tool] = (), withdrawn: Sequence[Tool] = ()
    ) -> tuple[int, ...]:
        """The ids of a user message after prompt and completion `ids`, up to the model's next turn.

        Tools that appear or disappear with the message are described in it.
        """
        ...

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        """Parse sampled ids; never raises, never invents a call."""
        ...


class UserModel(Protocol):
    """Plays the users of tasks with a `ModelUser`."""

    async def reply(self, task: Task, turns: Sequence[Turn], *, episode_id: str, seed: int) -> str:
        """Return what the user says after the last turn, `END_WORD` to end the exchange. Raises UserDown.

        The same task, turns and seed get the same reply.
        """
        ...


class UserDown(Exception):
    """The model that plays the user has failed: the episode is dropped and played again."""


class Rewarder(Protocol):
    """Scores one finished episode."""

    async def score(self, trajectory: Trajectory) -> Reward:
        """Score the episode. Raises RewardDown if a service that a part needs is down, never returns 0."""
        ...


class RewardDown(Exception):
    """A reward could not be computed through no fault of the model (an unreachable judge)."""
