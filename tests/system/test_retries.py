"""Requests are sent again after temporary failures, with the right waits and within their limits."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from turnwise.system.net.retries import Clock, GaveUp, RetryPolicy, TemporaryFailure
from turnwise.system.net.retry_after import retry_after_seconds

NOW = datetime(2026, 11, 16, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        *(("2", 2), ("0.3", 0.3)),
        (format_datetime(NOW + timedelta(seconds=30), usegmt=True), 30),
        (format_datetime(NOW - timedelta(seconds=30), usegmt=True), 0),
        *((header, None) for header in (None, "", "soon", "-5", "1.2.3", "nan", "9" * 400)),
        (f"Mon, 16 Nov 2026 10:00:{'9' * 40} GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, NOW) == seconds


@pytest.mark.parametrize(
    ("asked", "slept", "ending"),
    [
        ([None, None], [1, 2], "result"),
        ([7.0, None, 0.0], [7, 2, 0], "result"),
        ([None] * 4, [1, 2, 4], "busy (4 attempts)"),
        ([20.0, 20.0], [20], "busy (attempt 2; the next, in 20 s, would be too late)"),
        ([3600.0], [], "busy (attempt 1; the next, in 3600 s, would be too late)"),
    ],
)
async def test_waits_double_or_are_as_long_as_the_server_asks_until_attempts_or_time_run_out(
    asked: list[float | None], slept: list[float], ending: str
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def attempt() -> str:
        if asked:
            raise TemporaryFailure("busy", asked.pop(0))
        return "result"

    clock = Clock(monotonic=lambda: sum(waits), sleep=sleep, jitter=lambda: 0.0)
    policy = RetryPolicy(num_attempts=4, backoff_seconds=1.0, total_seconds=30.0, clock=clock)
    try:
        outcome = await policy.run(attempt)
    except GaveUp as error:
        outcome = str(error)
    assert (outcome, waits) == (ending, slept)


async def test_any_other_error_is_raised_at_once() -> None:
    async def attempt() -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        await RetryPolicy(4, 1.0, 30.0).run(attempt)
