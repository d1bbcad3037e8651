"""Measure the time in which at least one of several overlapping jobs runs."""

import contextlib
import time
from collections.abc import Iterator


class BusyClock:
    """Runs while at least one job is inside `running`."""

    def __init__(self) -> None:
        self._num_running = 0
        self._started_at = 0.0
        self._total_seconds = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        if not self._num_running:
            self._started_at = time.perf_counter()
        self._num_running += 1
        try:
            yield
        finally:
            self._num_running -= 1
            if not self._num_running:
                self._total_seconds += time.perf_counter() - self._started_at

    @property
    def seconds(self) -> float:
        running = time.perf_counter() - self._started_at if self._num_running else 0.0
        return self._total_seconds + running
