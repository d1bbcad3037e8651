"""A tracker's queue: never blocks the run, sends records to the tracker's process, counts losses."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO

from pydantic import TypeAdapter

from turnwise.records.trackers.environment import for_tracker, without_keys
from turnwise.records.trackers.messages import Record
from turnwise.records.trackers.tracker import Start

logger = logging.getLogger(__name__)

ROOM = 4_096
"""Records and episodes that may wait for a slow tracker, or two evaluations if they are more."""
_ANY: TypeAdapter[object] = TypeAdapter(object)


@dataclass(frozen=True, slots=True)
class _QueuedRecord:
    """A record that is built when it is sent, and its size in units of `ROOM`."""

    make: Callable[[], Record]
    size: int


@dataclass(slots=True)
class _Counts:
    """How many records were given, and how many of these were written, failed or were dropped."""

    given: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0


class Outbox:
    """One tracker's queue, thread and process. `put` never blocks and never raises."""

    def __init__(self, start: Start, variables: Mapping[str, str]) -> None:
        self.kind = start.config.kind
        self.where = ""  # until the tracker is ready
        self._start = start
        self._variables = variables
        self._changed = threading.Condition()
        self._waiting: deque[_QueuedRecord] = deque()
        self._room = max(ROOM, 2 * start.config.episodes_per_evaluation)
        self._counts = _Counts()
        self._why = ""  # why the tracker failed
        self._is_closing = False
        self._is_over = False
        self._process: subprocess.Popen[bytes] | None = None
        self._tail: deque[str] = deque(maxlen=5)
        self._thread = threading.Thread(target=self._run, name=f"tracker {self.kind}", daemon=True)
        self._thread.start()

    # --- called by the training --------------------------------------------------------------------------

    def put(self, make: Callable[[], Record], size: int = 1) -> None:
        with self._changed:
            self._counts.given += 1
            if self._is_over or size > self._room:
                self._counts.dropped += 1
                is_first = self._counts.dropped == 1 and not self._is_over
            else:
                self._room -= size
                self._waiting.append(_QueuedRecord(make, size))
                is_first = False
                self._changed.notify()
        if is_first:
            logger.warning("tracker %s is too slow: what its queue cannot hold is dropped", self.kind)

    def begin_close(self) -> None:
        """Let the thread send what is queued and then stop; no record follows."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def finish_close(self, started: float, seconds: float) -> None:
        """Wait until `seconds` after `started` (of `time.monotonic`), then kill the process."""
        self._thread.join(max(0.0, started + seconds - time.monotonic()))
        if self._thread.is_alive():
            self._fail(f"it had not finished after {seconds:g} s and was killed")
            self.kill()
            self._thread.join(5.0)

    def kill(self) -> None:
        """Kill the tracker's process and all that it has started."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
            if self._process is not None:  # not reaped yet, so the process id is still its own
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def loss(self) -> str:
        """How many records were lost and why, as a sentence; empty if none was."""
        with self._changed:
            counts, why = self._counts, self._why
            num_lost = counts.given - counts.done
            if not num_lost and not why:
                return ""
            parts = [
                (counts.dropped, "did not fit its queue or came after its end"),
                (counts.failed, "failed"),
                (num_lost - counts.dropped - counts.failed, "were still waiting"),
            ]
        lost = ", ".join(f"{number} {what}" for number, what in parts if number)
        said = f"tracker {self.kind}: {num_lost} of {counts.given} records lost"
        return said + (f" ({lost})" if lost else "") + (f": {why}" if why else "")

    # --- run in the tracker's thread ---------------------------------------------------------------------

    def _run(self) -> None:
        try:
            process = self._begin()
        except OSError as error:
            self._fail(f"its process could not be started: {error.strerror}")
            return
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        listener = threading.Thread(target=self._listen, args=(process.stdout,), daemon=True)
        overhearer = threading.Thread(target=self._overhear, args=(process.stderr,), daemon=True)
        listener.start()
        overhearer.start()
        with contextlib.suppress(BrokenPipeError), process.stdin:  # it has ended; `_reap` tells how
            self._write_all(process.stdin)
        listener.join()  # returns after the last answer, when the process has closed stdout
        self.kill()  # its remaining child processes
        code = self._reap(process)
        overhearer.join(2.0)
        if code and not self._why:
            last = f", having said: {' / '.join(self._tail)}" if self._tail else ""
            self._fail(f"its process ended with code {code}{last}")

    def _reap(self, process: "subprocess.Popen[bytes]") -> int:
        """Wait for the process and return its exit code.

        Afterwards another process may get its id, so `_process` becomes None and is not killed.
        """
        while True:
            with self._changed:  # not held while sleeping: `put` needs it
                code = process.poll()
                if code is not None:
                    self._process = None
                    return code
            time.sleep(0.02)

    def _begin(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-m", "turnwise.records.trackers.tracker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=for_tracker(self._variables),
            start_new_session=True,  # Ctrl-C goes to the run alone, which then closes its trackers
        )
        with self._changed:
            self._process = process
            is_late = self._is_over
        if is_late:
            self.kill()
        return process

    def _write_all(self, pipe: IO[bytes]) -> None:
        pipe.write(_line(self._start))
        pipe.flush()
        while (waiting := self._take()) is not None:
            try:
                line = _line(waiting.make())
            except Exception as error:  # noqa: BLE001 (a record that cannot be built is counted as failed)
                self._hear("error", f"{type(error).__name__}: {error}")
                continue
            finally:
                with self._changed:
                    self._room += waiting.size
            pipe.write(line)
            pipe.flush()

    def _take(self) -> _QueuedRecord | None:
        """Wait for the next record; None if there will be no more."""
        with self._changed:
            while not (self._waiting or self._is_closing or self._is_over):
                self._changed.wait()
            return self._waiting.popleft() if self._waiting and not self._is_over else None

    def _listen(self, answers: IO[bytes]) -> None:
        with answers:
            for line in answers:
                self._hear(*json.loads(line))
        with self._changed:
            self._is_over = True  # no more answers can arrive
            self._changed.notify()

    def _hear(self, what: str, text: str) -> None:
        if what == "ready":
            self.where = self._clean(text)
            logger.info("tracker %s: %s", self.kind, self.where)
        elif what == "failed":
            self._fail(self._clean(text))
        elif what == "error":
            with self._changed:
                self._counts.failed += 1
                number = self._counts.failed
            if number in (1, 10, 100, 1000):
                logger.warning("tracker %s: error %d: %s", self.kind, number, self._clean(text))
        elif what == "done":
            with self._changed:
                self._counts.done += 1

    def _overhear(self, chatter: IO[bytes]) -> None:
        with chatter:
            for line in iter(lambda: chatter.readline(10_000), b""):
                self._tail.append(self._clean(line.decode("utf-8", "replace")))

    def _clean(self, text: str) -> str:
        return without_keys(text, self._variables)

    def _fail(self, why: str) -> None:
        with self._changed:
            self._why = self._why or why
            self._is_over = True
            self._waiting.clear()
            self._changed.notify()
        logger.warning("tracker %s has ended; the run continues without it: %s", self.kind, why)


def _line(value: object) -> bytes:
    return json.dumps(_ANY.dump_python(value)).encode() + b"\n"
