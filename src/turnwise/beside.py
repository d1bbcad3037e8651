"""Takes a function, gives its result from a thread of its own that nobody has to wait for.

An update can take minutes and cannot be interrupted; asyncio's own threads are joined at the end, so a user
who asks to stop at once would wait for it. This one is left behind.
"""

import asyncio
import ctypes
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_NAME = "turnwise-beside"
_PR_SET_TIMERSLACK = 29

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def run_beside(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """What the function gives or raises; when cancelled, at once, and the thread goes on alone."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[Result] = loop.create_future()

    def tell(action: Callable[[], None]) -> None:
        def unless_cancelled() -> None:
            if not result.done():
                action()

        try:
            loop.call_soon_threadsafe(unless_cancelled)
        except RuntimeError:  # the loop is closed: left behind
            return

    def work() -> None:
        _wake_promptly()
        try:
            value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 (raised where it is waited for)
            failure = error
            tell(lambda: result.set_exception(failure))
        else:
            tell(lambda: result.set_result(value))

    threading.Thread(target=work, name=_NAME, daemon=True).start()
    return await result


def _wake_promptly() -> None:
    """Linux lets a thread wait up to 50 µs longer than it asks for, and this one asks for the interpreter's
    lock after each of torch's operations; the event loop's need not hurry."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)


def is_left_behind() -> bool:
    """Whether such a thread still works: the interpreter cannot be taken down under it."""
    return any(thread.name == _NAME for thread in threading.enumerate())
