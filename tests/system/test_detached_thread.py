"""A detached thread returns results and errors, can be abandoned, and wakes promptly."""

import asyncio
import ctypes
import sys
import threading

import pytest

from turnwise.system.threads import is_left_behind, run_detached

_PR_GET_TIMERSLACK = 30


async def test_results_and_errors_are_returned() -> None:
    assert await run_detached(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_detached(divmod, 7, 0)


async def test_a_cancelled_caller_does_not_wait_for_the_thread() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait()

    task = asyncio.create_task(run_detached(work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert is_left_behind()
    may_end.set()
    while is_left_behind():
        await asyncio.sleep(0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has timer slack")
async def test_the_thread_has_no_timer_slack_and_the_event_loop_keeps_its_own() -> None:
    def slack() -> int:
        return int(ctypes.CDLL(None).prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0))

    own = slack()
    assert await run_detached(slack) == 1
    assert slack() == own
    assert own > 1, "else this test shows nothing"
