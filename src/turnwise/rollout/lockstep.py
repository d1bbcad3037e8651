"""Takes a batch engine, gives one that samples all episodes in play together, round by round.

The last bits of a log-prob come of what else is in the batch and of how prefixes were cut in the cache. Left
to themselves, episodes meet in batches as their tools happen to take time. In lockstep they meet as the tasks
and seeds have it: a round begins when nothing moves any more, and its requests are handed over in a fixed
order, so that the same weights, tasks and seed give the same tokens and log-probs, bit for bit.

    member a  ─ sample ─ tool ──────── wait ┐         ┌ sample ─ …
    member b  ─ sample ─ tool ─ tool ─ wait ┼ a round ┼ sample ─ …
    member c  ─ sample ─ answer, score      │         │
    member d    (c's slot) lease ───── wait ┘         └ sample ─ …
"""

import asyncio
import contextlib
import heapq
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.protocols import Adapter, Ask, BatchEngine, EngineDown
from turnwise.types import Completion, Sampling


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request held back until its round, and whoever waits for it."""

    ask: Ask
    gate: "asyncio.Future[asyncio.Future[Completion]]"


class Lockstep:
    """Both the engine that players sample from and the collector's pace: the two must agree on who waits.

    Every member of every group that was begun is either *moving* (sampling, calling tools, being leased or
    scored: it will come by again) or at rest (it wants a slot, or a completion). Only when none moves are
    free slots given away, and only when none can be given does a round begin.

    `turn` is held while a collection lasts: of several that share an engine, one goes after the other.
    """

    def __init__(self, engine: BatchEngine, num_slots: int, turn: asyncio.Lock) -> None:
        self._engine = engine
        self._num_slots = num_slots
        self._turn = turn
        self._reset()

    def _reset(self) -> None:
        self._num_free = self._num_slots
        self._num_moving = 0
        self._queued: list[tuple[tuple[int, int], asyncio.Future[None]]] = []
        self._waiting: list[_Waiting] = []

    # --- the collector's pace ----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def collection(self) -> AsyncIterator[None]:
        """Nothing of what was sampled before, or is sampled for others, shows in its numbers."""
        async with self._turn:
            self._reset()
            await self._engine.forget()
            yield

    def enter(self, num_members: int) -> None:
        """So many members have been started and will ask for slots."""
        self._num_moving += num_members

    def leave(self) -> None:
        """One that moved does so no more."""
        self._num_moving -= 1
        if not self._num_moving:
            self._move_on()

    @contextlib.asynccontextmanager
    async def slot(self, place: tuple[int, int]) -> AsyncIterator[None]:
        """Hold one of the slots; those that wait get them in the order of their places (group, member)."""
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queued, (place, gate))
        self.leave()
        try:
            await gate
        except asyncio.CancelledError:
            if gate.cancelled():
                self._num_moving += 1  # on its way out
            else:
                self._num_free += 1
            raise
        try:
            yield
        finally:
            self._num_free += 1

    # --- the players' engine -----------------------------------------------------------------------------

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn, in the next round."""
        gate: asyncio.Future[asyncio.Future[Completion]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(Ask(tuple(prompt_ids), sampling, seed), gate))
        self.leave()
        try:
            sampled = await gate
        except asyncio.CancelledError:
            if gate.cancelled():
                self._num_moving += 1  # on its way out: its time was up
            elif gate.exception() is None:
                gate.result().cancel()
            raise
        return await sampled

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        await self._engine.publish(weights, version)

    async def close(self) -> None:
        await self._engine.close()

    # --- rounds ------------------------------------------------------------------------------------------

    def _move_on(self) -> None:
        """Nothing moves: fill the free slots, or else begin a round."""
        while self._num_free and self._queued:
            _, gate = heapq.heappop(self._queued)
            if not gate.done():  # cancelled
                gate.set_result(None)
                self._num_free -= 1
                self._num_moving += 1
        if not self._num_moving:
            self._begin_round()

    def _begin_round(self) -> None:
        held = [each for each in self._waiting if not each.gate.done()]
        held.sort(key=lambda each: (each.ask.prompt_ids, each.ask.seed))
        self._waiting.clear()
        self._num_moving = len(held)
        try:
            sampled = self._engine.submit([each.ask for each in held]) if held else []
        except EngineDown as error:
            for each in held:
                each.gate.set_exception(error)
        else:
            for each, future in zip(held, sampled, strict=True):
                each.gate.set_result(future)
