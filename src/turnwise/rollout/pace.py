"""When the episodes of a collection play: within a number of slots, or all in lockstep."""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Pace(Protocol):
    """Decides when members play: `Free` or `lockstep.Lockstep`."""

    def collection(self) -> AbstractAsyncContextManager[None]:
        """Held from the start of the first member to the end of the last. Raises EngineDown."""
        ...

    def enter(self, num_members: int) -> None:
        """Register started members; every member takes a slot, again for a retry, and then leaves."""
        ...

    def leave(self) -> None: ...

    def slot(self, place: tuple[int, int]) -> AbstractAsyncContextManager[None]:
        """One of a bounded number of slots, held while an episode is played; `place` is (group, member)."""
        ...


class Slots:
    """A bounded number of slots shared by several collections; earlier collections have priority."""

    def __init__(self, num_slots: int) -> None:
        self._num_free = num_slots
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def pace(self) -> "Free":
        """The pace of a new collection, with a lower priority than all earlier ones."""
        return Free(self, next(self._numbers))

    @contextlib.asynccontextmanager
    async def held(self, collection: int) -> AsyncIterator[None]:
        if self._num_free:
            self._num_free -= 1
        else:
            await self._wait(collection)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, collection: int) -> None:
        grant = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (collection, next(self._numbers), grant))
        try:
            await grant
        except asyncio.CancelledError:
            if grant.done() and not grant.cancelled():  # granted and cancelled at the same moment
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            grant = heapq.heappop(self._waiting)[2]
            if not grant.done():
                grant.set_result(None)
                return
        self._num_free += 1


class Free:
    """The free pace: an episode plays as soon as it has a slot."""

    def __init__(self, slots: Slots, number: int) -> None:
        self._slots = slots
        self._number = number

    @contextlib.asynccontextmanager
    async def collection(self) -> AsyncIterator[None]:
        yield

    def enter(self, num_members: int) -> None: ...

    def leave(self) -> None: ...

    @contextlib.asynccontextmanager
    async def slot(self, place: tuple[int, int]) -> AsyncIterator[None]:
        async with self._slots.held(self._number):
            yield
