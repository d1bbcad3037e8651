"""A thread that keeps the rows, indexes and searches of runs up to date and notifies waiting pages."""

import asyncio
import logging
import sqlite3
import threading
import time

from turnwise.dashboard.index import search_index
from turnwise.dashboard.runs import ListedRun, Runs
from turnwise.dashboard.views.log_files import log_sizes
from turnwise.dashboard.views.run_row import RunRow

logger = logging.getLogger(__name__)

_LOOK_EVERY = 5
"""New runs are looked for at every 5th refresh."""

_COUNT_SECONDS = 0.2
"""The share of the time in which the costs of runs are counted."""


class Watch:
    """Refreshes all rows, and the indexes of opened runs, about every `seconds`.

    `version` grows with every change.
    """

    def __init__(self, runs: Runs, *, seconds: float = 1.0) -> None:
        self._runs = runs
        self._seconds = seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="index", daemon=True)
        self._rows: dict[str, RunRow] = {}
        self._logs: dict[str, list[int]] = {}
        self.version = 0
        self.is_whole = False
        """Whether the indexes of the opened runs have caught up with the files."""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    async def changed(self, since: int, *, timeout: float) -> int:
        """Wait until the version exceeds `since`, at most `timeout` seconds; return the version."""
        deadline = asyncio.get_running_loop().time() + timeout
        while self.version <= since and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.1)
        return self.version

    def _follow(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                if number % _LOOK_EVERY == 0:
                    self.version += self._runs.look()
            except (OSError, sqlite3.Error) as error:  # a removed folder, a full disk
                logger.warning("new runs were not looked for this time: %s", error)
            opened = [run for run in self._runs if run.is_open]
            for run in opened:
                self.version += run.refresh(seconds=self._seconds)
            deadline = time.monotonic() + _COUNT_SECONDS * self._seconds
            for run in self._runs:
                run.count(deadline=deadline)
            rows = {run.name: run.row() for run in self._runs}
            self.version += rows != self._rows  # the end of a run adds no line to the indexed files
            self._rows = rows
            logs = {run.name: log_sizes(run.folder) for run in opened}
            self.version += logs != self._logs  # a run that loads its model logs lines but no figures
            self._logs = logs
            is_behind = any(run.index.is_behind for run in opened)
            self.version += self.is_whole == is_behind
            self.is_whole = not is_behind
            is_filling = any(self._fill(run) for run in opened if not run.index.is_behind)
            number += 1
            self._stop.wait(0 if is_behind or is_filling else self._seconds)

    def _fill(self, run: ListedRun) -> bool:
        """Make more episodes searchable; return whether there were any."""
        try:
            return search_index.fill(run.index, run.pieces, seconds=self._seconds / 2)
        except Exception as error:  # one bad folder must not stop the others
            logger.info("%s: episodes were not made searchable this time", run.name, exc_info=error)
            return False
