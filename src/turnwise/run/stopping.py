"""Ctrl-C and SIGTERM during a run: the first ends it after the step, the second at once."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

_SIGNALS = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Stopping:
    """Whether the user has asked the run to stop: `why` is empty until then."""

    def __init__(self) -> None:
        self.why = ""

    @contextlib.contextmanager
    def listening(self, on_first: Callable[[], None]) -> Iterator[None]:
        """Handle signals while the block runs: the first sets `why`, the second cancels the current task."""
        loop = asyncio.get_running_loop()
        main = asyncio.current_task()
        assert main is not None, "called from a coroutine"

        def ask(name: str) -> None:
            if self.why:
                main.cancel()
                return
            self.why = f"you asked it to stop ({name})"
            on_first()

        for number, name in _SIGNALS.items():
            loop.add_signal_handler(number, ask, name)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
