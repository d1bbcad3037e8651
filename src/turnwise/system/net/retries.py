"""Send a request again after a temporary failure: exponential waits, or the wait that the server asks for."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

Result = TypeVar("Result")


class TemporaryFailure(Exception):
    """One attempt failed and another may succeed; `wait_seconds` is the wait that the server asked for."""

    def __init__(self, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds


class GaveUp(Exception):
    """No attempt succeeded; the text is the last failure and why no further attempt follows."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The source of time and jitter; tests pass their own."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = lambda: random.uniform(0.0, 0.25)  # noqa: S311 - spreads retries, no secret


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is sent, and how long all attempts and waits together may take.

    The first wait is `backoff_seconds`, every further one twice as long; jitter adds up to a quarter. No wait
    is shorter than the server asked for: retrying sooner only prolongs a rate limit.
    """

    num_attempts: int
    backoff_seconds: float
    total_seconds: float
    clock: Clock = Clock()

    async def run(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Return the first result; repeat the attempt while it raises TemporaryFailure, then raise GaveUp."""
        deadline = self.clock.monotonic() + self.total_seconds
        number = 1
        while True:
            try:
                return await attempt()
            except TemporaryFailure as error:
                failure = error
            if number == self.num_attempts:
                attempts = f" ({number} attempts)" if number > 1 else ""
                raise GaveUp(f"{failure}{attempts}") from failure
            seconds = failure.wait_seconds
            if seconds is None:
                seconds = self.backoff_seconds * 2 ** (number - 1)
            seconds *= 1 + self.clock.jitter()
            if self.clock.monotonic() + seconds >= deadline:
                raise GaveUp(
                    f"{failure} (attempt {number}; the next, in {seconds:.0f} s, would be too late)"
                ) from failure
            await self.clock.sleep(seconds)
            number += 1
