"""Publish new weights to the engine, before the next update or during it.

Publishing an adapter takes a few tenths of a second. If batches are collected ahead, the next update has its
batch already and need not wait; only collections that start later do.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any


class Publishing:
    """Publishes weights, one publication at a time; with `is_concurrent`, `begin` does not wait for it."""

    def __init__(self, publish: Callable[[], Coroutine[Any, Any, None]], *, is_concurrent: bool) -> None:
        """`publish` returns a coroutine that publishes the weights as they are at the time of the call."""
        self._publish = publish
        self._is_concurrent = is_concurrent
        self._under_way: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Leaving the block waits for a running publication; an error cancels it."""
        try:
            yield
            await self.finish()
        finally:
            if self._under_way is not None:
                self._under_way.cancel()
                await asyncio.wait([self._under_way])
                self._under_way = None

    async def begin(self) -> float:
        """Publish the current weights after any earlier publication; returns the seconds it blocked."""
        started = time.perf_counter()
        await self.finish()
        self._under_way = asyncio.create_task(self._publish(), name="publishing")
        if not self._is_concurrent:
            await self.finish()
        return time.perf_counter() - started

    def then(self, action: Callable[[], None]) -> None:
        """Run `action` as soon as the engine samples from the newest weights."""
        if self._under_way is None:
            action()
        else:
            self._under_way = asyncio.create_task(_followed(self._under_way, action), name="publishing")

    async def finish(self) -> None:
        """Wait until the engine samples from the newest weights; raises what the publication raised."""
        if self._under_way is not None:
            await self._under_way
            self._under_way = None


async def _followed(task: asyncio.Task[None], action: Callable[[], None]) -> None:
    try:
        await task
    finally:
        task.cancel()  # has an effect only if this coroutine was cancelled
    action()
