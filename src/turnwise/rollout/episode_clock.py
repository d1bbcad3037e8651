"""Limit the time of an episode's calls, and apart from it the time that everything else takes.

How long calls take is the model's doing, so that limit is scored. The rest measures the machine: sampling,
and waiting for the engine, a free slot, an open breaker or a server's rest.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

_LOOK_SECONDS = 0.05


class EpisodeClock:
    """Ends its block with TimeoutError once either time is used up."""

    def __init__(self, seconds: float, in_calls: Callable[[], float]) -> None:
        """seconds: the limit of each. in_calls: the seconds in which calls have been at work."""
        self._seconds = seconds
        self._in_calls = in_calls
        self._started_at = time.perf_counter()
        self._handle: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as scope:
            self._watch(scope)
            try:
                yield
            finally:
                if self._handle is not None:
                    self._handle.cancel()

    @property
    def has_slow_calls(self) -> bool:
        """Whether the calls have used up their time."""
        return self._in_calls() >= self._seconds

    def _watch(self, scope: asyncio.Timeout) -> None:
        loop = asyncio.get_running_loop()
        in_calls = self._in_calls()
        elsewhere = time.perf_counter() - self._started_at - in_calls
        left_seconds = self._seconds - max(in_calls, elsewhere)
        if left_seconds <= 0:
            scope.reschedule(loop.time())
        else:
            self._handle = loop.call_later(max(left_seconds, _LOOK_SECONDS), self._watch, scope)
