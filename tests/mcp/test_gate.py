"""The gate of a server: how many calls run at once, how fast they start, and when none may start."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from turnwise.mcp.calls.gate import Breaker, BreakerOpen, Gate
from turnwise.mcp.spec import ServerOptions

# --- breaker -----------------------------------------------------------------------------------------------


@dataclass
class Clock:
    """A clock that the test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def breaker(max_failures: int = 3, open_seconds: float = 10.0) -> tuple[Breaker, Clock]:
    clock = Clock()
    return Breaker(max_failures, open_seconds, clock), clock


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.failed()


def seconds_until_trial(breaker: Breaker, clock: Clock) -> float:
    """Advance the clock in small steps until a trial is admitted."""
    started = clock.now
    while clock.now < started + 1_000:
        with contextlib.suppress(BreakerOpen):
            assert breaker.admit() is True
            return clock.now - started
        clock.now += 0.5
    raise AssertionError("never admitted")


def test_only_failures_in_a_row_open_it() -> None:
    one, _ = breaker(max_failures=3)
    for _ in range(10):
        assert one.admit() is False, "a closed breaker admits every call, and none of them as a trial"
        fail(one, 2)
        one.succeeded()
    fail(one, 3)
    assert one.is_open
    with pytest.raises(BreakerOpen, match=r"3 failures in a row; next try in 10\.0 s"):
        one.admit()


def test_after_its_open_period_it_admits_exactly_one_trial() -> None:
    one, clock = breaker(open_seconds=10)
    fail(one, 3)
    for clock.now, is_admitted in ((9.9, False), (10.0, True), (10.0, False), (99.0, False)):
        with contextlib.nullcontext() if is_admitted else pytest.raises(BreakerOpen):
            assert one.admit() is True
    one.withdrawn()
    assert one.admit() is True, "a withdrawn trial makes room for another"
    assert one.is_open


def test_every_failed_trial_doubles_the_wait_up_to_sixteen_times_until_one_succeeds() -> None:
    one, clock = breaker(max_failures=3, open_seconds=10)
    fail(one, 3)
    waits = []
    for _ in range(7):
        waits.append(seconds_until_trial(one, clock))
        one.failed()
    assert waits == [10, 20, 40, 80, 160, 160, 160]
    seconds_until_trial(one, clock)
    one.succeeded()
    assert one.admit() is False
    fail(one, 2)
    assert not one.is_open
    one.failed()
    assert seconds_until_trial(one, clock) == 10, "a success resets the wait"
    assert one.num_openings == 9, "but not the count of openings"


def test_failures_of_calls_already_in_flight_do_not_prolong_the_wait() -> None:
    one, clock = breaker(max_failures=3, open_seconds=10)
    fail(one, 3)
    clock.now = 5
    fail(one, 20)
    assert seconds_until_trial(one, clock) == 5


# --- gate --------------------------------------------------------------------------------------------------


def gate(**options: Any) -> Gate:
    return Gate(ServerOptions(**options))


async def enter(gate: Gate, inside: Callable[[], Awaitable[Any]]) -> None:
    async with gate.entered():
        await inside()


async def nothing() -> None:
    pass


async def test_as_many_calls_run_at_once_as_allowed_and_never_more() -> None:
    limited = gate(max_concurrency=4)
    in_flight, seen = 0, []

    async def inside() -> None:
        nonlocal in_flight
        in_flight += 1
        seen.append(in_flight)
        await asyncio.sleep(0.002)
        in_flight -= 1

    await asyncio.gather(*(enter(limited, inside) for _ in range(50)))
    assert max(seen) == 4


async def test_a_rate_limit_bounds_how_many_calls_start_in_any_window() -> None:
    limited = gate(rate_per_second=50)
    starts: list[float] = []

    async def inside() -> None:
        starts.append(asyncio.get_running_loop().time())

    await asyncio.gather(*(enter(limited, inside) for _ in range(20)))
    for start in starts:
        # 50 a second: 5 in a tenth of a second, and one or two more at the edges of the window.
        assert sum(start <= other < start + 0.1 for other in starts) <= 7
    assert starts[-1] - starts[0] >= 19 / 50 * 0.8


async def test_calls_that_are_cancelled_while_they_wait_leak_no_slot() -> None:
    limited = gate(max_concurrency=2)
    may_go = asyncio.Event()
    for _ in range(20):
        holders = [asyncio.create_task(enter(limited, may_go.wait)) for _ in range(2)]
        queued = [asyncio.create_task(enter(limited, may_go.wait)) for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in (*queued[::2], holders[0]):
            task.cancel()
        may_go.set()
        outcomes = await asyncio.gather(*holders, *queued, return_exceptions=True)
        assert sum(outcome is None for outcome in outcomes) == 3
        may_go.clear()
    async with asyncio.timeout(2), limited.entered(), limited.entered():
        pass
    slow = gate(max_concurrency=1, rate_per_second=5)
    await enter(slow, nothing)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(enter(slow, nothing), 0.01)  # still waiting for the rate
    await asyncio.wait_for(enter(slow, nothing), 2)


async def test_of_the_leases_that_wait_for_a_breaker_one_tries_and_the_others_follow_when_it_closes() -> None:
    broken = gate(breaker_failures=1, breaker_seconds=0.3, patience_seconds=30)
    await asyncio.wait_for(broken.patient(), 0.1)
    broken.breaker.failed()
    await asyncio.wait_for(broken.patient(for_breaker=False), 0.1)  # a lease that starts no process
    waiting = [asyncio.create_task(broken.patient()) for _ in range(5)]
    await asyncio.sleep(0.15)
    assert not any(task.done() for task in waiting), "the breaker is not due yet"
    await asyncio.sleep(0.3)
    assert sum(task.done() for task in waiting) == 1
    async with broken.entered():
        broken.breaker.failed()
    await asyncio.sleep(0.2)
    assert sum(task.done() for task in waiting) == 1, "the trial failed: all wait for the next"
    broken.breaker.succeeded()
    await asyncio.wait_for(asyncio.gather(*waiting), 1)


async def test_a_lease_waits_no_longer_than_its_patience_or_until_it_may_try() -> None:
    broken = gate(breaker_failures=1, breaker_seconds=0.2, patience_seconds=10)
    broken.breaker.failed()
    async with asyncio.timeout(2):  # the first makes no call, so the second may try
        await asyncio.gather(broken.patient(), broken.patient())
    hasty = gate(breaker_failures=1, patience_seconds=0.1)
    hasty.breaker.failed()
    await asyncio.wait_for(hasty.patient(), 1)
    assert hasty.breaker.is_open


async def test_calls_wait_for_an_open_breaker_and_are_made_after_a_good_trial() -> None:
    broken = gate(breaker_failures=1, breaker_seconds=0.2, patience_seconds=30)
    broken.breaker.failed()
    num_made = 0

    async def call() -> None:
        nonlocal num_made
        async with broken.entered():
            num_made += 1
            await asyncio.sleep(0.1)
            assert num_made == 1 or not broken.breaker.is_open, "two trials at once"
        broken.breaker.succeeded()

    async with asyncio.timeout(5):
        await asyncio.gather(*(call() for _ in range(3)))
    assert num_made == 3


async def test_a_call_that_was_queued_when_the_breaker_opened_is_refused() -> None:
    broken = gate(max_concurrency=1, breaker_failures=1, patience_seconds=0)
    async with broken.entered():
        queued = asyncio.create_task(enter(broken, nothing))
        await asyncio.sleep(0.01)  # admitted by now, and waiting for the only slot
        broken.breaker.failed()
    with pytest.raises(BreakerOpen):
        await queued


async def test_a_cancelled_trial_makes_room_for_another() -> None:
    broken = gate(patience_seconds=0)
    broken.breaker, clock = breaker(max_failures=1, open_seconds=10.0)
    broken.breaker.failed()
    clock.now = 10.0
    trial = asyncio.create_task(enter(broken, asyncio.Event().wait))
    await asyncio.sleep(0)
    with pytest.raises(BreakerOpen):
        await enter(broken, nothing)
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)
    await enter(broken, nothing)
