"""Starts that failed before there was a run: lines of `failed_starts.jsonl` in the folder of runs."""

import contextlib
import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from turnwise.records.folder import RunFolder
from turnwise.system.environment import known_redaction
from turnwise.system.files.regular_files import Damaged, open_to_append, read_bytes
from turnwise.system.terminal import printable

logger = logging.getLogger(__name__)

FILE = "failed_starts.jsonl"
MAX_STARTS = 200
_MAX_CHARS = 2_000
_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class FailedStart:
    """A start that failed, and why."""

    time: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)]
    """Seconds since the epoch."""
    recipe_file: str
    name: str
    """The name that the run's folder would have had, without its date."""
    command: str
    error: str


_LINE = TypeAdapter(FailedStart)


class Starting:
    """A run that is being started; `folder` is set once there is one."""

    def __init__(self) -> None:
        self.folder: RunFolder | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the run's folder stays, which then says how the run ended."""
        return self.folder is not None and self.folder.is_kept


@contextlib.contextmanager
def recording_failed_start(runs: Path, *, recipe_file: str, name: str, command: str) -> Iterator[Starting]:
    """Record an exception that ends the block before the run has begun, then let it propagate.

    A folder of runs that does not exist is not created for it.
    """
    starting = Starting()
    try:
        yield starting
    except Exception as error:
        if not starting.is_begun and runs.is_dir():
            _append(runs / FILE, FailedStart(time.time(), recipe_file, name, command, _reason(error)))
        raise


def _reason(error: BaseException) -> str:
    """What went wrong: a user's mistake in its own words; a task group with a single error is unwrapped."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def read_failed_starts(runs: Path) -> list[FailedStart]:
    """The failed starts in a folder of runs, oldest first; other lines are skipped."""
    try:
        lines = read_bytes(runs / FILE, _MAX_BYTES).split(b"\n")
    except (OSError, Damaged):
        return []
    starts = []
    for line in lines[-MAX_STARTS * 2 :]:
        with contextlib.suppress(ValidationError, ValueError, RecursionError):
            starts.append(_short(_LINE.validate_json(line)))
    return starts[-MAX_STARTS:]


def _append(path: Path, start: FailedStart) -> None:
    """Append the line and drop the oldest beyond MAX_STARTS. A failure is logged: the start has its own."""
    redaction = known_redaction()

    def shown_text(text: str) -> str:
        return printable(redaction.redact(text)).encode(errors="replace").decode()

    line = json.dumps(asdict(_short(_with_texts(start, shown_text)))).encode()
    try:
        with open_to_append(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # several processes may fail at once
            written = read_bytes(path, _MAX_BYTES)
            lines = [each for each in written.split(b"\n") if each.strip()]
            if len(lines) >= MAX_STARTS:
                written = b"".join(each + b"\n" for each in lines[-MAX_STARTS + 1 :])
                os.ftruncate(file.fileno(), 0)
                file.write(written)
            torn = written and not written.endswith(b"\n")
            file.write((b"\n" if torn else b"") + line + b"\n")
    except (OSError, Damaged) as error:
        logger.info("%s: the failed start is not recorded: %s", path, error)


def _short(start: FailedStart) -> FailedStart:
    return _with_texts(start, lambda text: text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} …")


def _with_texts(start: FailedStart, change: Callable[[str], str]) -> FailedStart:
    texts = (start.recipe_file, start.name, start.command, start.error)
    return FailedStart(start.time, *map(change, texts))
