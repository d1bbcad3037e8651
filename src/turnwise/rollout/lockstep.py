"""Lockstep: all running episodes are sampled together in rounds, so that a run is reproducible bit for bit.

The last bits of a log-prob depend on the other rows of the batch and on how prefixes are split in the cache.
Without lockstep, batches depend on how long tools take. In lockstep they depend only on tasks and seeds: a
round begins when every episode waits, and its requests are submitted in a fixed order. The same weights,
tasks and seed then give the same tokens and log-probs, bit for bit.

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

from turnwise.types import Completion, Sampling
from turnwise.types.protocols import Adapter, Ask, BatchEngine, EngineDown


@dataclass(frozen=True, slots=True)
class _HeldRequest:
    """A request that waits for its round, and the future of its caller."""

    ask: Ask
    gate: "asyncio.Future[asyncio.Future[Completion]]"


class Lockstep:
    """The engine of the players and the pace of the collector in one, because both must know who waits.

    Every member of a started group is either *moving* (sampling, calling tools, being leased or scored) or
    waiting (for a slot or for a completion). Free slots are assigned only when no member moves, and a round
    begins only when no slot can be assigned.

    `turn` is locked during a collection: collections that share an engine run one after the other.
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
        self._waiting: list[_HeldRequest] = []

    # --- pace of the collector ---------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def collection(self) -> AsyncIterator[None]:
        """Reset the engine's cache and exclude other collections, so that neither affects the log-probs."""
        async with self._turn:
            self._reset()
            await self._engine.forget()
            yield

    def enter(self, num_members: int) -> None:
        """Register started members, which will ask for slots."""
        self._num_moving += num_members

    def leave(self) -> None:
        """Register that a moving member now waits or has ended."""
        self._num_moving -= 1
        if not self._num_moving:
            self._advance()

    @contextlib.asynccontextmanager
    async def slot(self, place: tuple[int, int]) -> AsyncIterator[None]:
        """Hold one of the slots; waiting members get them in the order of their places (group, member)."""
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queued, (place, gate))
        self.leave()
        try:
            await gate
        except asyncio.CancelledError:
            if gate.cancelled():
                self._num_moving += 1  # it moves until it leaves
            else:
                self._num_free += 1
            raise
        try:
            yield
        finally:
            self._num_free += 1

    # --- engine of the players ---------------------------------------------------------------------------

    async def complete(self, prompt_ids: Sequence[int], sampling: Sampling, seed: int) -> Completion:
        """Sample one turn, in the next round."""
        gate: asyncio.Future[asyncio.Future[Completion]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_HeldRequest(Ask(tuple(prompt_ids), sampling, seed), gate))
        self.leave()
        try:
            sampled = await gate
        except asyncio.CancelledError:
            if gate.cancelled():
                self._num_moving += 1  # its time is up; it moves until it leaves
            elif gate.exception() is None:
                gate.result().cancel()
            raise
        return await sampled

    async def publish(self, weights: Mapping[str, Any] | Adapter, version: int) -> None:
        await self._engine.publish(weights, version)

    async def close(self) -> None:
        await self._engine.close()

    # --- rounds ------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """No member moves: fill the free slots, or else begin a round."""
        while self._num_free and self._queued:
            _, gate = heapq.heappop(self._queued)
            if not gate.done():  # cancelled
                gate.set_result(None)
                self._num_free -= 1
                self._num_moving += 1
        if not self._num_moving:
            self._begin_round()

    def _begin_round(self) -> None:
        requests = [request for request in self._waiting if not request.gate.done()]
        requests.sort(key=lambda request: (request.ask.prompt_ids, request.ask.seed))
        self._waiting.clear()
        self._num_moving = len(requests)
        try:
            sampled = self._engine.submit([request.ask for request in requests]) if requests else []
        except EngineDown as error:
            for request in requests:
                request.gate.set_exception(error)
        else:
            for request, future in zip(requests, sampled, strict=True):
                request.gate.set_result(future)
