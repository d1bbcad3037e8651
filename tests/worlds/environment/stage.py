"""Games that environment tests play: text and tools, sync and async, with a record of what was called."""

import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from tests.rollout.stage import script, small_chat
from turnwise.engines.scripted import ScriptedEngine
from turnwise.mcp.calls.results import Sanitiser
from turnwise.mcp.toolbox import Readability
from turnwise.rollout.conversation import PLAIN, EpisodeRules
from turnwise.rollout.players.policy import EpisodeLimits, play
from turnwise.types import Sampling, Task, ToolCall, Trajectory
from turnwise.types.protocols import Toolbox
from turnwise.worlds.environment import PythonEnvironment

CHAT = small_chat()
PROMPT = "Guess my number."
MAX_TOKENS = 64


class Guess:
    """The number is the task's seed."""

    log: list[str]

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def reset(self, task: Task) -> Any:
        self.number, self.is_found = task.seed, False
        return PROMPT

    def step(self, said: Any) -> Any:
        assert self.thread == threading.get_ident(), "all methods run in one thread"
        guess = int(said)
        self.is_found = guess == self.number
        return ("right", True) if self.is_found else ("higher" if guess < self.number else "lower", False)

    def score(self) -> Any:
        return {"outcome": float(self.is_found), "half": 0.5}


class AsyncGuess:
    """The same game with async methods."""

    async def reset(self, task: Task) -> Any:
        self.number, self.is_found = task.seed, False
        return PROMPT

    async def step(self, said: Any) -> Any:
        guess = int(said)
        self.is_found = guess == self.number
        return ("right", True) if self.is_found else ("higher" if guess < self.number else "lower", False)

    async def score(self) -> Any:
        return {"outcome": float(self.is_found), "half": 0.5}


def task(seed: int = 3, **more: Any) -> Task:
    return Task(f"number-{seed}", seed=seed, **more)


def environment(make: Callable[[], Any], *, timeout_seconds: float = 60.0) -> PythonEnvironment:
    readability = Readability(Sanitiser(CHAT.special_tokens), MAX_TOKENS, CHAT.count_tokens)
    return PythonEnvironment(
        "games:Game", make, readability, timeout_seconds=timeout_seconds, is_mending=True
    )


def leasing(found: PythonEnvironment) -> Any:
    @contextlib.asynccontextmanager
    async def lease(one: Task, episode_id: str) -> AsyncIterator[Toolbox]:
        async with found.lease(one) as leased:
            yield leased

    return lease


def engine_of(turns: Sequence[str | Sequence[ToolCall] | tuple[int, ...]]) -> ScriptedEngine:
    written = [turn if _is_ids(turn) else script(CHAT, turn)[0] for turn in turns]  # type: ignore[arg-type]
    return ScriptedEngine(lambda text: (), min(CHAT.stop_ids), sequence=written)


def _is_ids(turn: Any) -> bool:
    return isinstance(turn, tuple) and bool(turn) and isinstance(turn[0], int)


async def played(
    make: Callable[[], Any],
    *turns: Any,
    one: Task | None = None,
    limits: EpisodeLimits | None = None,
    timeout_seconds: float = 60.0,
    rules: EpisodeRules = PLAIN,
) -> Trajectory:
    """Play one episode in a leased environment, as a collector does."""
    one = one or task()
    async with environment(make, timeout_seconds=timeout_seconds).lease(one) as leased:
        return await play(
            leased.posed(one),
            engine_of(turns),
            CHAT,
            leased,
            episode_id="e",
            seed=1,
            limits=limits or EpisodeLimits(),
            sampling=Sampling(),
            rules=rules,
        )
