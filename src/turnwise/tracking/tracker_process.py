"""`python -m turnwise.tracking.tracker_process`: one tracker in its own process, driven by lines on stdin.

It answers every line with one of its own: `ready`, `done`, `error` (that record is lost, the next may do) or
`failed` (it will never work). Its library cannot stop, slow or fool a training run from here: not by waiting,
not by printing, not by its threads and exit handlers, not by a crash.
"""

import contextlib
import json
import os
import signal
import threading
import time
from typing import IO, Any

from pydantic import TypeAdapter

from turnwise.tracking.records import Record
from turnwise.tracking.tracker import Start, Tracker, new_tracker, tell

_START: TypeAdapter[Start] = TypeAdapter(Start)
_RECORD: TypeAdapter[Any] = TypeAdapter(Record)


def main() -> None:
    lines, answers = _own_pipes()
    os.umask(0o077)  # what a library writes into the run's folder is as private as the rest of it
    os.nice(10)  # on a small machine the cores are the training's
    for number in (signal.SIGINT, signal.SIGTERM):  # of a terminal or a cluster: the run says when it is over
        signal.signal(number, signal.SIG_IGN)
    start = _START.validate_python(json.loads(lines.readline()))
    watching = (os.getppid(), start.config.close_seconds)
    threading.Thread(target=_end_after, args=watching, daemon=True).start()
    try:
        tracker = new_tracker(start)
        _say(answers, "ready", tracker.where)
    except Exception as error:  # noqa: BLE001 (any library's any mistake; it is reported)
        _say(answers, "failed", _told(error))
        os._exit(1)
    for line in lines:
        _take(tracker, line, answers)
    try:
        tracker.close()
        _say(answers, "closed", "")
    except Exception as error:  # noqa: BLE001 (the same)
        _say(answers, "failed", _told(error))
    os._exit(0)  # what a library still wants to do at the exit, it had its time for


def _take(tracker: Tracker, line: bytes, answers: IO[bytes]) -> None:
    try:
        tell(tracker, _RECORD.validate_python(json.loads(line)))
    except Exception as error:  # noqa: BLE001 (the same)
        _say(answers, "error", _told(error))
    else:
        _say(answers, "done", "")


def _end_after(training: int, seconds: float) -> None:
    """When the training was killed, nobody else would end what hangs in here, or what it has started."""
    while os.getppid() == training:
        time.sleep(1.0)
    time.sleep(seconds)
    os.killpg(0, signal.SIGKILL)


def _own_pipes() -> tuple[IO[bytes], IO[bytes]]:
    """What we are told and what we answer, out of reach: a library finds nothing to read, prints to stderr,
    and whatever it starts does not keep our pipes open."""
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return lines, answers


def _say(answers: IO[bytes], what: str, text: str) -> None:
    with contextlib.suppress(BrokenPipeError):  # the training is gone; what it told us is still worth writing
        answers.write(json.dumps([what, text]).encode() + b"\n")


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
