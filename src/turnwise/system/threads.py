"""Run a function in a daemon thread that shutdown does not join.

An update can take minutes and cannot be interrupted. asyncio joins its own threads at the end, so a user who
asks to stop at once would have to wait; this thread is abandoned instead.
"""

import asyncio
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

NAME = "turnwise-detached"
"""The name of every thread that shutdown does not join."""
_PR_SET_TIMERSLACK = 29

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def run_detached(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Await the function's result. Cancelling returns at once and leaves the thread running."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Result] = loop.create_future()

    def tell(action: Callable[[], None]) -> None:
        def unless_cancelled() -> None:
            if not result.done():
                action()

        try:
            loop.call_soon_threadsafe(unless_cancelled)
        except RuntimeError:  # the loop is closed: the thread was abandoned
            return

    def work() -> None:
        _wake_promptly()
        try:
            value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 (raised in the awaiting task)
            failure = error
            tell(lambda: result.set_exception(failure))
        else:
            tell(lambda: result.set_result(value))

    threading.Thread(target=work, name=NAME, daemon=True).start()
    return await result


def _wake_promptly() -> None:
    """Reduce this thread's timer slack. Linux may delay wake-ups by 50 µs, and this thread waits for the
    interpreter's lock after every torch operation."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def is_left_behind() -> bool:
    """Whether an abandoned thread still runs; the interpreter cannot shut down cleanly under it."""
    return any(thread.name == NAME for thread in threading.enumerate())
