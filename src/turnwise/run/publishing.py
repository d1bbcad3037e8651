"""Takes what was learned, gives it to the engine: before the next update, or beside it.

An adapter takes some tenths of a second to be handed over. Where batches are collected ahead, the next update
has its batch already and need not wait for that; the collections that follow do.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any


class Publishing:
    """One publication at a time."""

    def __init__(self, publish: Callable[[], Coroutine[Any, Any, None]], *, is_beside: bool) -> None:
        """`publish` hands over the weights as they are when it is called, whatever becomes of them."""
        self._publish = publish
        self._is_beside = is_beside
        self._under_way: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Leaving waits for what is under way; an error leaves it undone."""
        try:
            yield
            await self.finish()
        finally:
            if self._under_way is not None:
                self._under_way.cancel()
                await asyncio.wait([self._under_way])
                self._under_way = None

    async def begin(self) -> float:
        """Hand over what there is now, once what was begun before is done; gives the seconds it waited."""
        started = time.perf_counter()
        await self.finish()
        self._under_way = asyncio.create_task(self._publish(), name="publishing")
        if not self._is_beside:
            await self.finish()
        return time.perf_counter() - started

    def then(self, action: Callable[[], None]) -> None:
        """Once the engine samples from what was last learned: now, or when that is so."""
        if self._under_way is None:
            action()
        else:
            self._under_way = asyncio.create_task(_followed(self._under_way, action), name="publishing")

    async def finish(self) -> None:
        """Until the engine samples from what was last learned; raises what went wrong."""
        if self._under_way is not None:
            await self._under_way
            self._under_way = None


async def _followed(task: asyncio.Task[None], action: Callable[[], None]) -> None:
    try:
        await task
    finally:
        task.cancel()  # where this one was; else it is done
    action()
