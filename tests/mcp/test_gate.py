"""The gate before each server: how many calls run, how fast they start, and when none does."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.mcp.notes import notes_spec
from turnwise.mcp.gate import Breaker, BreakerOpen, Gate
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import ServerOptions
from turnwise.types import Cause, ToolCall


@dataclass
class Clock:
    """Time that passes only when told to."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def breaker(max_failures: int = 3, open_seconds: float = 10.0) -> tuple[Breaker, Clock]:
    clock = Clock()
    return Breaker(max_failures, open_seconds, clock), clock


def fail(breaker: Breaker, times: int) -> None:
    for _ in range(times):
        breaker.failed()


def seconds_until_admitted(breaker: Breaker, clock: Clock) -> float:
    """Let time pass in small steps until a trial is let through."""
    started = clock.now
    for _ in range(10_000):
        try:
            assert breaker.admit() is True
        except BreakerOpen:
            clock.now += 0.5
        else:
            return clock.now - started
    raise AssertionError("never admitted")


# --- breaker -----------------------------------------------------------------------------------------------


def test_a_closed_breaker_admits_everyone_and_nobody_as_a_trial() -> None:
    closed, _ = breaker()
    assert [closed.admit() for _ in range(5)] == [False] * 5


def test_openings_are_counted_in_all_also_after_it_has_closed_again() -> None:
    one, clock = breaker(max_failures=2, open_seconds=10.0)
    for num in range(1, 4):
        fail(one, 2)
        assert (one.is_open, one.num_openings) == (True, num)
        clock.now += 10.0
        assert one.admit(), "it waits no longer than the first time: it had closed"
        one.succeeded()
    assert (one.is_open, one.num_openings) == (False, 3)


def test_only_failures_in_a_row_open_it() -> None:
    one, _ = breaker(max_failures=3)
    for _ in range(10):
        fail(one, 2)
        one.succeeded()
    assert not one.is_open
    fail(one, 3)
    assert one.is_open
    with pytest.raises(BreakerOpen, match=r"3 failures in a row; next try in 10\.0 s"):
        one.admit()


def test_an_open_breaker_refuses_until_its_time_and_then_lets_exactly_one_try() -> None:
    one, clock = breaker(open_seconds=10)
    fail(one, 3)
    clock.now = 9.9
    with pytest.raises(BreakerOpen):
        one.admit()
    clock.now = 10.0
    assert one.admit() is True
    for _ in range(3):
        with pytest.raises(BreakerOpen):
            one.admit()


def test_a_trial_that_succeeds_closes_it_and_forgets_the_past() -> None:
    one, clock = breaker(max_failures=3, open_seconds=10)
    fail(one, 3)
    seconds_until_admitted(one, clock)
    one.failed()
    seconds_until_admitted(one, clock)
    one.succeeded()
    assert one.admit() is False
    fail(one, 2)
    assert not one.is_open
    one.failed()
    assert seconds_until_admitted(one, clock) == 10, "the first wait again, not the doubled one"


def test_each_failed_trial_doubles_the_wait_up_to_sixteen_times() -> None:
    one, clock = breaker(open_seconds=10)
    fail(one, 3)
    waits = []
    for _ in range(7):
        waits.append(seconds_until_admitted(one, clock))
        one.failed()
    assert waits == [10, 20, 40, 80, 160, 160, 160]


def test_failures_of_calls_that_were_already_under_way_do_not_prolong_the_wait() -> None:
    one, clock = breaker(max_failures=3, open_seconds=10)
    fail(one, 3)
    clock.now = 5
    fail(one, 20)
    assert seconds_until_admitted(one, clock) == 5


def test_a_withdrawn_trial_leaves_the_way_free_for_the_next() -> None:
    one, clock = breaker(open_seconds=10)
    fail(one, 3)
    seconds_until_admitted(one, clock)
    one.withdrawn()
    assert one.admit() is True
    assert one.is_open


# --- gate --------------------------------------------------------------------------------------------------


def options(**changes: Any) -> ServerOptions:
    return ServerOptions(**changes)


async def crowd(gate: Gate, num_calls: int, inside: Callable[[], Any]) -> None:
    async def one() -> None:
        async with gate.entered():
            await inside()

    async with asyncio.TaskGroup() as tasks:
        for _ in range(num_calls):
            tasks.create_task(one())


async def test_never_more_calls_in_flight_than_allowed_and_as_many_as_allowed() -> None:
    async def main() -> int:
        in_flight = most = 0

        async def inside() -> None:
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            await asyncio.sleep(0.002)
            in_flight -= 1

        await crowd(Gate(options(max_concurrency=4)), 50, inside)
        return most

    assert (await main()) == 4


async def test_a_rate_limit_bounds_how_many_start_in_any_window() -> None:
    starts: list[float] = []

    async def inside() -> None:
        starts.append(asyncio.get_running_loop().time())

    await crowd(Gate(options(rate_per_second=50)), 20, inside)
    for start in starts:
        # 50 a second: 5 in a tenth, and one or two more at the edges of the window.
        assert sum(start <= other < start + 0.1 for other in starts) <= 7
    assert starts[-1] - starts[0] >= 19 / 50 * 0.8


async def test_calls_given_up_while_queueing_leak_no_slot_and_no_turn() -> None:
    gate = Gate(options(max_concurrency=2))
    may_go = asyncio.Event()
    for _ in range(20):
        holders = [asyncio.create_task(crowd(gate, 1, may_go.wait)) for _ in range(2)]
        queued = [asyncio.create_task(crowd(gate, 1, may_go.wait)) for _ in range(5)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for task in (*queued[::2], holders[0]):
            task.cancel()
        may_go.set()
        outcomes = await asyncio.gather(*holders, *queued, return_exceptions=True)
        assert sum(outcome is None for outcome in outcomes) == 3
        may_go.clear()
    async with asyncio.timeout(2), gate.entered(), gate.entered():
        pass


async def test_calls_given_up_while_waiting_for_the_rate_leak_no_slot() -> None:
    gate = Gate(options(max_concurrency=1, rate_per_second=5))
    async with gate.entered():
        pass
    for _ in range(5):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), gate.entered():
                raise AssertionError("started too early")
    async with asyncio.timeout(2), gate.entered():
        pass


async def test_of_those_that_wait_for_an_open_breaker_one_goes_ahead_and_the_others_when_it_is_closed() -> (
    None
):
    gate = Gate(options(breaker_failures=1, breaker_seconds=0.3, patience_seconds=30))
    await asyncio.wait_for(gate.patient(), 0.1)
    gate.breaker.failed()
    waiting = [asyncio.create_task(gate.patient()) for _ in range(5)]
    await asyncio.sleep(0.15)
    assert not any(task.done() for task in waiting), "before its time nobody goes"
    await asyncio.sleep(0.3)
    assert sum(task.done() for task in waiting) == 1
    async with gate.entered():
        gate.breaker.failed()
    await asyncio.sleep(0.2)
    assert sum(task.done() for task in waiting) == 1, "the trial failed: all wait for the next"
    gate.breaker.succeeded()
    await asyncio.wait_for(asyncio.gather(*waiting), 1)


async def test_patience_ends_and_a_scout_that_makes_no_call_is_followed_by_another() -> None:
    gate = Gate(options(breaker_failures=1, breaker_seconds=0.2, patience_seconds=10))
    gate.breaker.failed()
    async with asyncio.timeout(2):
        await asyncio.gather(gate.patient(), gate.patient())
    hasty = Gate(options(breaker_failures=1, patience_seconds=0.1))
    hasty.breaker.failed()
    await asyncio.wait_for(hasty.patient(), 1)
    assert hasty.breaker.is_open


async def test_a_call_waits_for_an_open_breaker_and_is_made_when_a_trial_went_well() -> None:
    async def main() -> list[str]:
        gate = Gate(options(breaker_failures=1, breaker_seconds=0.2, patience_seconds=30))
        gate.breaker.failed()
        made: list[str] = []

        async def call(name: str) -> None:
            async with gate.entered():
                made.append(name)
                await asyncio.sleep(0.1)
                assert len(made) == 1 or not gate.breaker.is_open, "two trials at once"
            gate.breaker.succeeded()

        async with asyncio.timeout(5), asyncio.TaskGroup() as calls:
            for name in "abc":
                calls.create_task(call(name))
        return made

    assert sorted(await main()) == ["a", "b", "c"]


async def test_a_lease_that_starts_nothing_does_not_wait_for_a_breaker() -> None:
    gate = Gate(options(breaker_failures=1, breaker_seconds=60, patience_seconds=60))
    gate.breaker.failed()
    await asyncio.wait_for(gate.patient(for_breaker=False), 1)


async def test_a_call_that_queued_while_the_breaker_opened_is_refused_not_sent() -> None:
    gate = Gate(options(max_concurrency=1, breaker_failures=1, patience_seconds=0))
    async with gate.entered():
        queued = asyncio.create_task(crowd(gate, 1, lambda: asyncio.sleep(0)))
        await asyncio.sleep(0.01)  # admitted by now, and waiting for the only slot
        gate.breaker.failed()
    [error] = await asyncio.gather(queued, return_exceptions=True)
    assert isinstance(error, BaseExceptionGroup)
    assert isinstance(error.exceptions[0], BreakerOpen)


async def test_a_cancelled_trial_lets_another_call_try() -> None:
    gate = Gate(options(breaker_failures=1, breaker_seconds=0.01, patience_seconds=0))
    gate.breaker.failed()
    await asyncio.sleep(0.02)
    trial = asyncio.create_task(crowd(gate, 1, lambda: asyncio.sleep(60)))
    await asyncio.sleep(0.005)
    with pytest.raises(BreakerOpen):
        async with gate.entered():
            pass
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)
    async with gate.entered():
        gate.breaker.succeeded()
    assert not gate.breaker.is_open


async def test_a_trial_that_fails_through_the_gate_makes_the_next_wait_longer() -> None:
    gate = Gate(options(patience_seconds=0))
    gate.breaker, clock = breaker(max_failures=1, open_seconds=10.0)
    gate.breaker.failed()
    clock.now += 10.5
    with pytest.raises(ConnectionError):
        async with gate.entered():
            raise ConnectionError
    gate.breaker.failed()  # told after the gate was left, as a call is judged by its outcome
    for _ in range(2):
        with pytest.raises(BreakerOpen):
            async with gate.entered():
                pass
        clock.now += 10.5
    async with gate.entered():
        pass


async def test_a_server_that_stays_broken_is_tried_ever_more_rarely() -> None:
    """Through a real lease: every answer is an infrastructure fault, and few calls reach the server."""

    async def main() -> int:
        spec = notes_spec(breaker_failures=2, breaker_seconds=0.1, num_retries=0, patience_seconds=0)
        num_reached = 0
        async with Pool([spec]) as pool, pool.lease(["notes"], "e") as toolbox:
            breaker = pool.breakers["notes"]
            assert (breaker.is_open, breaker.num_openings) == (False, 0)
            until = time.monotonic() + 1.2
            while time.monotonic() < until:
                [result] = await toolbox.call([ToolCall("1", "unavailable", {})])
                num_reached += result.cause is Cause.UPSTREAM
                assert result.cause in (Cause.UPSTREAM, Cause.BREAKER_OPEN)
                await asyncio.sleep(0.01)
            assert breaker.is_open
            assert breaker.num_openings == num_reached - 1, "every trial that failed opened it anew"
        return num_reached

    # 2 to open it, then trials after 0.1, 0.2 and 0.4 s; without doubling there would be one every 0.1 s.
    assert 3 <= (await main()) <= 5
