"""A daemon thread that runs functions one after the other, always in the same thread.

Objects that belong to a thread, such as a connection of sqlite3, need that. Shutdown does not join it.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

from turnwise.system.threads import NAME


class SerialThread:
    """The thread starts with the first function and ends after `end`, once all functions have returned."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._num_submitted = 0
        self._num_returned = 0

    @property
    def is_busy(self) -> bool:
        """Whether a function runs or waits: one whose caller was cancelled goes on."""
        return self._num_returned < self._num_submitted

    def submit(self, function: Callable[[], Any]) -> "asyncio.Future[Any]":
        """Queue the function. It runs even if the future is cancelled."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()

        def report(value: Any, error: BaseException | None) -> None:
            if result.done():
                return
            if error is None:
                result.set_result(value)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                result.set_exception(error)
            else:  # a future cannot hold StopIteration, and SystemExit would end the event loop
                result.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

        def job() -> None:
            value, failure = None, None
            try:
                value = function()
            except BaseException as error:  # noqa: BLE001 (raised where the future is awaited)
                failure = error
            self._num_returned += 1
            try:
                loop.call_soon_threadsafe(report, value, failure)
            except RuntimeError:  # the loop is closed: nobody waits
                return

        self._num_submitted += 1
        self._jobs.put(job)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=NAME, daemon=True)
            self._thread.start()
        return result

    def end(self) -> None:
        """Let the thread end after the functions queued so far."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
