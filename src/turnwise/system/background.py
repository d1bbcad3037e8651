"""Run a coroutine in a thread with its own event loop, and wait for it.

A notebook has a running loop in its main thread, which could not start another.
"""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from types import FrameType
from typing import Any, TypeVar

from turnwise.system.stopping import Stopping, signals_heard

Result = TypeVar("Result")


def run_in_thread(work: Callable[[], Awaitable[Result]], stopping: Stopping | None = None) -> Result:
    """Return the result of `work()`.

    Ctrl-C, SIGTERM and SIGHUP are requests to `stopping`; without it they end the work at once. Work that was
    ended at once raises KeyboardInterrupt.
    """
    ready: Future[Callable[[signal.Signals], None]] = Future()
    done: Future[Result] = Future()

    async def main() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def request(number: signal.Signals) -> None:
            action = task.cancel if stopping is None else (lambda: stopping.hear(number))
            with contextlib.suppress(RuntimeError):  # the loop is closed: the work has just ended
                loop.call_soon_threadsafe(action)

        ready.set_result(request)
        return await work()

    def target() -> None:
        try:
            done.set_result(asyncio.run(main()))
        except BaseException as error:  # noqa: BLE001 (raised in the waiting thread)
            done.set_exception(error)

    def heard(number: signal.Signals) -> None:
        ready.add_done_callback(lambda request: request.result()(number))  # at once if the loop runs already

    thread = threading.Thread(target=target, name="turnwise", daemon=True)
    with _signals(heard):
        thread.start()
        thread.join()
    try:
        return done.result()
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@contextlib.contextmanager
def _signals(request: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Pass signals to `request` while the block runs; Python delivers them to the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(number: int, _frame: FrameType | None) -> None:
        request(signal.Signals(number))

    before: dict[signal.Signals, Any] = {number: signal.signal(number, heard) for number in signals_heard()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
