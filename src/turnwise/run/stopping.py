"""Stop a run: the first request ends it after the step, the second at once."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Stopping:
    """Whether the run was asked to stop: `why` is empty until then."""

    def __init__(self) -> None:
        self.why = ""
        self.error: Exception | None = None
        """What the caller's own function raised, if that stopped the run."""
        self._on_first: Callable[[], None] = lambda: None
        self._main: asyncio.Task[object] | None = None

    def ask(self, name: str) -> None:
        """Ask the run to stop, in the thread of its loop; the second time its task is cancelled."""
        if not self.why:
            self.why = f"you asked it to stop ({name})"
            self._on_first()
        elif self._main is not None:
            self._main.cancel()

    def attempt(self, function: Callable[[], None], name: str) -> None:
        """Call a function of the user's; if it raises, the run stops after the step and `error` is set."""
        try:
            function()
        except Exception as error:  # noqa: BLE001 (the caller raises it once the run has ended)
            self.error = error
            self.why = f"{name} raised {type(error).__name__}: {error}"

    @contextlib.contextmanager
    def listening(self, on_first: Callable[[], None]) -> Iterator[None]:
        """Take requests while the block runs; in the main thread, signals are requests too."""
        loop = asyncio.get_running_loop()
        self._on_first, self._main = on_first, asyncio.current_task()
        assert self._main is not None, "called from a coroutine"
        is_main_thread = threading.current_thread() is threading.main_thread()
        heard = SIGNALS if is_main_thread else {}  # Python delivers signals to the main thread only
        for number, name in heard.items():
            loop.add_signal_handler(number, self.ask, name)
        try:
            yield
        finally:
            self._on_first, self._main = (lambda: None), None
            for number in heard:
                loop.remove_signal_handler(number)
