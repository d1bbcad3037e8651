"""Decides when a call to a server may start: concurrency, rate, and a breaker that stops calling the dead."""

import asyncio
import contextlib
import math
import random
import time
from collections.abc import AsyncIterator, Callable

from aiolimiter import AsyncLimiter

from turnwise.mcp.spec import ServerOptions

_LOOK_SECONDS = 0.05
"""Poll interval of calls and leases that wait."""

_MAX_REST_SECONDS = 3600.0
"""Enough for an hourly quota to reset; a server that asks for a longer rest is still called after it."""


class BreakerOpen(Exception):
    """The server may not be called now: its breaker is open, or its rest is longer than our patience."""


class Breaker:
    """Closed → (failures in a row) → open → (seconds) → one trial → closed, or open for twice as long."""

    def __init__(
        self, max_failures: int, open_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_failures = max_failures
        self._open_seconds = open_seconds
        self._clock = clock
        self._num_failures = 0
        self._num_openings_in_a_row = 0
        self.num_openings = 0
        """Since the start; a success does not reset it."""
        self._opened_at: float | None = None
        self._is_trying = False

    @property
    def is_open(self) -> bool:
        return self._opened_at is not None

    def admit(self) -> bool:
        """Admit a call or raise BreakerOpen; returns True for the one trial call of an open breaker."""
        if self._opened_at is None:
            return False
        left_seconds = self._left_seconds(self._opened_at)
        if left_seconds > 0 or self._is_trying:
            raise BreakerOpen(
                f"{self._num_failures} failures in a row; next try in {max(left_seconds, 0):.1f} s"
            )
        self._is_trying = True
        return True

    def succeeded(self) -> None:
        self._num_failures = self._num_openings_in_a_row = 0
        self._opened_at = None
        self._is_trying = False

    def failed(self) -> None:
        self._num_failures += 1
        if self._opened_at is None:
            is_opening = self._num_failures >= self._max_failures
        else:
            # After the open period only the trial can fail; an earlier failure is a call already in flight.
            is_opening = self._left_seconds(self._opened_at) <= 0
        if is_opening:
            self._opened_at = self._clock()
            self._num_openings_in_a_row += 1
            self.num_openings += 1
        self._is_trying = False

    def _left_seconds(self, opened_at: float) -> float:
        # Doubles at each reopening, to at most 16-fold: a dead server costs one trial every few minutes.
        wait_seconds = self._open_seconds * float(2 ** min(self._num_openings_in_a_row - 1, 4))
        return opened_at + wait_seconds - self._clock()

    @property
    def is_due(self) -> bool:
        """Whether the breaker is open and admits its trial call now."""
        return (
            self._opened_at is not None and not self._is_trying and self._left_seconds(self._opened_at) <= 0
        )

    def withdrawn(self) -> None:
        """Mark the trial as over: a cancelled one reports neither success nor failure."""
        self._is_trying = False


class Gate:
    """Limits the calls to one server; shared by every episode that uses it."""

    def __init__(self, options: ServerOptions) -> None:
        self.breaker = Breaker(options.breaker_failures, options.breaker_seconds)
        self._slots = asyncio.Semaphore(options.max_concurrency)
        self._limiter = _limiter(options.rate_per_second)
        self._patience_seconds = options.patience_seconds
        self._rests_until = -math.inf
        self._scout_seconds = options.breaker_seconds
        self._scouted_at = -math.inf

    @property
    def rest_seconds(self) -> float:
        """Seconds left of the rest that the server asked for."""
        return max(0.0, self._rests_until - time.monotonic())

    def rest(self, seconds: float) -> None:
        """Send no calls for `seconds` (at most an hour), as the server asked."""
        self._rests_until = max(self._rests_until, time.monotonic() + min(seconds, _MAX_REST_SECONDS))

    async def patient(self, *, for_breaker: bool = True) -> None:
        """Wait, before a lease, until the server's rest is over; at most `patience_seconds`.

        `for_breaker`: also wait while its breaker is open, for a lease that has to start a process. When the
        breaker is due for a trial, one of the waiting leases goes ahead. Other leases do not wait for the
        breaker, since the episode may never call this server; its calls do, in `entered`.
        """
        started = time.monotonic()
        while time.monotonic() < started + self._patience_seconds:
            is_open = for_breaker and self.breaker.is_open
            if not (is_open or self.rest_seconds):
                return
            is_due = is_open and self.breaker.is_due and not self.rest_seconds
            if is_due and time.monotonic() > self._scouted_at + self._scout_seconds:
                self._scouted_at = time.monotonic()
                return
            await asyncio.sleep(_LOOK_SECONDS)

    @contextlib.asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Hold a slot for one call, after an open breaker and a rest.

        Raises BreakerOpen if either takes longer than `patience_seconds`.
        """
        until = time.monotonic() + self._patience_seconds
        is_made = False
        while not is_made:
            is_trial = await self._admitted(until)
            try:
                async with self._slots:
                    await self._rested()
                    if self._limiter is not None:
                        await self._limiter.acquire()
                        await self._rested()
                    if is_trial or not self.breaker.is_open:
                        is_made = True
                        yield
            finally:
                if is_trial:
                    self.breaker.withdrawn()

    async def _admitted(self, until: float) -> bool:
        """Wait until the breaker admits the call; returns True if it is the trial of an open breaker."""
        while True:
            try:
                return self.breaker.admit()
            except BreakerOpen:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    async def _rested(self) -> None:
        """Wait until the server's rest is over; raises BreakerOpen if it exceeds `patience_seconds`."""
        until = time.monotonic() + self._patience_seconds
        while seconds := self.rest_seconds:
            if time.monotonic() + seconds > until:
                raise BreakerOpen(
                    f"it asks for a rest of {seconds:.0f} s, patience_seconds is {self._patience_seconds:g}"
                )
            # Jitter: calls that wait together must not resume together.
            await asyncio.sleep(seconds * random.uniform(1.0, 1.1))  # noqa: S311


def _limiter(rate_per_second: float | None) -> AsyncLimiter | None:
    if rate_per_second is None:
        return None
    # One call at a time, evenly spaced: providers limit bursts within short windows.
    return AsyncLimiter(1, 1.0 / rate_per_second)
