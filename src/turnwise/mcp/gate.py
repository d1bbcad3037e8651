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
"""Between looks at a breaker that is waited for."""

_MAX_REST_SECONDS = 3600.0
"""An hour's quota; a server that asks for more is tried again after it all the same."""


class BreakerOpen(Exception):
    """The server failed too often of late; nothing is sent to it until the breaker lets one call try."""


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
        """In all."""
        self._opened_at: float | None = None
        self._is_trying = False

    @property
    def is_open(self) -> bool:
        return self._opened_at is not None

    def admit(self) -> bool:
        """Let the caller through, or raise BreakerOpen; True for the one call that tries an open breaker."""
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
            # Past its time only a trial can fail; before, it is a call that was already under way.
            is_opening = self._left_seconds(self._opened_at) <= 0
        if is_opening:
            self._opened_at = self._clock()
            self._num_openings_in_a_row += 1
            self.num_openings += 1
        self._is_trying = False

    def _left_seconds(self, opened_at: float) -> float:
        # Doubling, to at most 16 times: a server that stays dead costs one trial every few minutes.
        wait_seconds = self._open_seconds * float(2 ** min(self._num_openings_in_a_row - 1, 4))
        return opened_at + wait_seconds - self._clock()

    @property
    def is_due(self) -> bool:
        """Whether one call may try an open breaker now."""
        return (
            self._opened_at is not None and not self._is_trying and self._left_seconds(self._opened_at) <= 0
        )

    def withdrawn(self) -> None:
        """The trial left the gate; if it was cancelled, nobody will tell how it went."""
        self._is_trying = False


class Gate:
    """One per server, shared by every episode that uses it."""

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
        """How long the server still wants no calls."""
        return max(0.0, self._rests_until - time.monotonic())

    def rest(self, seconds: float) -> None:
        """Send nothing for so long: the server asked for it."""
        self._rests_until = max(self._rests_until, time.monotonic() + min(seconds, _MAX_REST_SECONDS))

    async def patient(self, *, for_breaker: bool = True) -> None:
        """Before a lease: wait while the server wants no calls, as long as there is patience.

        `for_breaker`: also while its breaker is open, where the lease itself has to start a process. One of
        those that wait goes ahead when the breaker lets a trial through. Other leases do not wait for a
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
        """Hold a slot for one call; waits for an open breaker. Raises BreakerOpen when patience ends."""
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
        """Wait until the breaker lets this call through; True if it is the one that tries an open breaker."""
        while True:
            try:
                return self.breaker.admit()
            except BreakerOpen:
                if time.monotonic() >= until:
                    raise
            await asyncio.sleep(_LOOK_SECONDS)

    async def _rested(self) -> None:
        """Wait until the server may be called again; raises BreakerOpen if that is past all patience."""
        until = time.monotonic() + self._patience_seconds
        while seconds := self.rest_seconds:
            if time.monotonic() + seconds > until:
                raise BreakerOpen(
                    f"it asks for a rest of {seconds:.0f} s, patience_seconds is {self._patience_seconds:g}"
                )
            # Jitter: calls that wait together must not come back together.
            await asyncio.sleep(seconds * random.uniform(1.0, 1.1))  # noqa: S311


def _limiter(rate_per_second: float | None) -> AsyncLimiter | None:
    if rate_per_second is None:
        return None
    # One at a time, evenly spaced: providers count bursts against short windows.
    return AsyncLimiter(1, 1.0 / rate_per_second)
