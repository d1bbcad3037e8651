"""The seams between packages: what a rollout needs of its tools, its engine, its chat and its rewards."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from turnwise.types import (
    Completion,
    Message,
    Parsed,
    Reward,
    Sampling,
    ServerLoss,
    Tool,
    ToolCall,
    ToolResult,
    Trajectory,
)


class Toolbox(Protocol):
    """One episode's tools, from however many servers, while its lease lasts."""

    @property
    def tools(self) -> Sequence[Tool]: ...

    @property
    def losses(self) -> Sequence[ServerLoss]:
        """Servers that died during this lease, in the order it was noticed."""
        ...

    async def call(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Run one turn's calls; results come in call order, and a failed call is a result, not an error."""
        ...


class EngineDown(Exception):
    """The engine cannot answer any more: an infrastructure fault of every episode waiting on it."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """What LoRA adds to the whole weights that an engine had last: alpha / rank · B·A, module by module."""

    tensors: Mapping[str, Any]
    """`<module>.lora_A` and `<module>.lora_B` to tensors, the module's name as in the plain model."""
    rank: int
    alpha: float

    def copy(self) -> "Adapter":
        """As it is now, whatever is learned next."""
        tensors = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return Adapter(tensors, self.rank, self.alpha)


class Engine(Protocol):
    """Token ids in, token ids out; nothing else crosses."""

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn. The same prompt, sampling, seed and weights give the same tokens whatever else
        is being sampled beside it. Raises EngineDown, or ValueError for a prompt that cannot fit."""
        ...

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        """Take new weights (parameter name to tensor, or an adapter); completions begun after this carry
        `version`."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Ask:
    """One completion wanted of an engine; see `Engine.complete`."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    seed: int


@runtime_checkable
class BatchEngine(Protocol):
    """An engine whose numbers, to the last bit, come of the batches it is given since it last forgot."""

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion: ...

    def submit(self, asks: Sequence[Ask]) -> "list[asyncio.Future[Completion]]":
        """Hand over a batch as one; each future ends as `complete` would. Raises EngineDown."""
        ...

    async def forget(self) -> None:
        """Drop whatever was kept of earlier completions."""
        ...

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None: ...

    async def close(self) -> None: ...


@runtime_checkable
class StartingEngine(Protocol):
    """An engine with a process of its own, which takes a while to start."""

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
        """Give memory back until the next publication, if it was started so; requests wait meanwhile."""
        ...


class Chat(Protocol):
    """Messages to token ids and back, for one model."""

    @property
    def stop_ids(self) -> frozenset[int]:
        """The tokens that end a turn."""
        ...

    def open(self, messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[int, ...]:
        """The first prompt."""
        ...

    def extend(self, ids: Sequence[int], observations: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        """What comes after prompt and completion `ids`, up to where the model speaks again.

        Observations are (tool name, content) pairs; a corrective note has the empty name.
        """
        ...

    def parse(self, completion_ids: Sequence[int], prompt_ids: Sequence[int], *, is_cut: bool) -> Parsed:
        """Structure out of sampled ids; never raises, never invents a call."""
        ...


class Rewarder(Protocol):
    """Scores one finished episode."""

    async def score(self, trajectory: Trajectory) -> Reward:
        """Raises RewardDown when a part that needs a service could not be had: infrastructure, never a 0."""
        ...


class RewardDown(Exception):
    """A reward could not be computed for no fault of the model's (an unreachable judge)."""
