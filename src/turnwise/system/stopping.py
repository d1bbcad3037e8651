"""Stop a run: the first request ends it after the step, the second at once."""

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from turnwise.system.interruption import is_hang_up_ignored
from turnwise.system.lasting_output import lasting_output
from turnwise.system.terminal import ON_SCREEN

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_REQUESTS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


def signals_heard() -> tuple[signal.Signals, ...]:
    """The signals that stop a run; a hang-up is not one of them if it is ignored, as under nohup."""
    return (*_REQUESTS, *(() if is_hang_up_ignored() else (signal.SIGHUP,)))


class Stopping:
    """Whether the run was asked to stop: `why` is empty until then."""

    def __init__(self) -> None:
        self.why = ""
        self.error: Exception | None = None
        """What the caller's own function raised, if that stopped the run."""
        self._is_requested = False
        self._on_first: Callable[[str], None] = lambda why: None
        self._main: asyncio.Task[object] | None = None

    def hear(self, number: signal.Signals) -> None:
        """Handle a signal, in the thread of the run's loop."""
        if number in _REQUESTS:
            self.ask(_REQUESTS[number])
        else:
            self._end_after_step("its terminal was closed (SIGHUP)")

    def ask(self, name: str) -> None:
        """Ask the run to stop, in the thread of its loop; the second time its task is cancelled."""
        if self._is_requested and self._main is not None:
            self._main.cancel()
        self._is_requested = True
        self._end_after_step(f"you asked it to stop ({name})")

    def _lose_output(self, what: str) -> None:
        """Stdout or stderr is gone. Under nohup the run goes on: it is meant to outlive its terminal."""
        if is_hang_up_ignored():
            logger.warning("%s: the run goes on without it, in this log", what, extra=ON_SCREEN)
        else:
            self._end_after_step(f"its output is gone ({what})")

    def _end_after_step(self, why: str) -> None:
        """A closed terminal sends several signals and breaks the pipe, so this never stops a run at once."""
        if not self.why:
            self.why = why
            self._on_first(why)

    def attempt(self, function: Callable[[], None], name: str) -> None:
        """Call a function of the user's; if it raises, the run stops after the step and `error` is set."""
        try:
            function()
        except Exception as error:  # noqa: BLE001 (the caller raises it once the run has ended)
            self.error = error
            self.why = f"{name} raised {type(error).__name__}: {error}"

    async def unless_asked(
        self, work: Coroutine[Any, Any, Result], on_asked: Callable[[str], None]
    ) -> Result | None:
        """Await work of which nothing is kept before its end: the first request cancels it, and returns None.

        `on_asked` is called with the reason at once; the work may take a while to end.
        """
        if self.why:
            work.close()
            return None
        task, before = asyncio.ensure_future(work), self._on_first
        reasons: list[str] = []

        def end(why: str) -> None:
            reasons.append(why)
            on_asked(why)
            task.cancel()

        self._on_first = end
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not reasons or (current is not None and current.cancelling()):
                raise
            return None
        finally:
            self._on_first = before

    @contextlib.contextmanager
    def listening(self, on_first: Callable[[str], None]) -> Iterator[None]:
        """Take requests while the block runs: signals, in the main thread, and the loss of stdout or stderr.

        `on_first` is called with the reason of the first.
        """
        loop = asyncio.get_running_loop()
        self._on_first, self._main = on_first, asyncio.current_task()
        assert self._main is not None, "called from a coroutine"

        def lost(what: str) -> None:  # called while the stream is locked: nothing may be printed here
            with contextlib.suppress(RuntimeError):  # the loop is closed: the run has just ended
                loop.call_soon_threadsafe(self._lose_output, what)

        is_main_thread = threading.current_thread() is threading.main_thread()
        heard = signals_heard() if is_main_thread else ()  # Python delivers signals to the main thread only
        for number in heard:
            loop.add_signal_handler(number, self.hear, number)
        try:
            with lasting_output(lost):
                yield
        finally:
            self._on_first, self._main = (lambda why: None), None
            for number in heard:
                loop.remove_signal_handler(number)
