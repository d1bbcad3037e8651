"""`python -m turnwise.records.trackers.tracker_process`: one tracker, driven by lines on stdin.

It answers every line with one line: `ready`, `done`, `error` (that record is lost, later ones may work)
or `failed` (the tracker does not work). In its own process the tracker's library cannot stop, slow down or
confuse the training run: not by blocking, printing, threads, exit handlers or a crash.
"""

import contextlib
import json
import os
import signal
import threading
import time
from typing import IO, Any

from pydantic import TypeAdapter

from turnwise.records.trackers.messages import Record
from turnwise.records.trackers.tracker import Start, Tracker, new_tracker, tell

_START: TypeAdapter[Start] = TypeAdapter(Start)
_RECORD: TypeAdapter[Any] = TypeAdapter(Record)


def main() -> None:
    lines, answers = _own_pipes()
    os.umask(0o077)  # a library's files in the run's folder are as private as the run's own
    os.nice(10)  # on a small machine the training needs the cores
    # from a terminal or a scheduler: the run ends us
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    start = _START.validate_python(json.loads(lines.readline()))
    watching = (os.getppid(), start.config.close_seconds)
    threading.Thread(target=_end_after, args=watching, daemon=True).start()
    try:
        tracker = new_tracker(start)
        _say(answers, "ready", tracker.where)
    except Exception as error:  # noqa: BLE001 (a library may raise anything; it is reported)
        _say(answers, "failed", _description(error))
        os._exit(1)
    for line in lines:
        _take(tracker, line, answers)
    try:
        tracker.close()
        _say(answers, "closed", "")
    except Exception as error:  # noqa: BLE001 (the same)
        _say(answers, "failed", _description(error))
    os._exit(0)  # skip exit handlers of libraries: `close` was their time


def _take(tracker: Tracker, line: bytes, answers: IO[bytes]) -> None:
    try:
        tell(tracker, _RECORD.validate_python(json.loads(line)))
    except Exception as error:  # noqa: BLE001 (the same)
        _say(answers, "error", _description(error))
    else:
        _say(answers, "done", "")


def _end_after(training: int, seconds: float) -> None:
    """Kill this process group `seconds` after the training has died: nobody else would end a hang."""
    while os.getppid() == training:
        time.sleep(1.0)
    time.sleep(seconds)
    os.killpg(0, signal.SIGKILL)


def _own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Move our pipes away from stdin and stdout, and return them.

    A library then reads an empty stdin and prints to stderr; its child processes do not inherit the pipes.
    """
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return lines, answers


def _say(answers: IO[bytes], what: str, text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the training is gone; its records are still written
        answers.write(json.dumps([what, text]).encode() + b"\n")


def _description(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
