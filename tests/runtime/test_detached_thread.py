"""What runs in a thread of its own: what it gives and raises, that nobody must wait for it, how it wakes."""

import asyncio
import ctypes
import sys
import threading

import pytest

from turnwise.runtime.detached_thread import is_left_behind, run_detached

pytestmark = pytest.mark.anyio
_PR_GET_TIMERSLACK = 30


async def test_a_result_and_an_error_come_back() -> None:
    assert await run_detached(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await run_detached(divmod, 7, 0)


async def test_who_is_cancelled_does_not_wait_for_it() -> None:
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


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has timers that may be late")
async def test_it_wakes_as_soon_as_it_asks_to() -> None:
    def slack() -> int:
        return int(ctypes.CDLL(None).prctl(_PR_GET_TIMERSLACK, 0, 0, 0, 0))

    own = slack()
    assert await run_detached(slack) == 1
    assert slack() == own, "the event loop's is as it was"
    assert own > 1, "or there is nothing to see here"
