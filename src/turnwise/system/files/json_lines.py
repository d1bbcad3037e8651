"""Append JSON lines to a file so that a kill leaves no torn line behind."""

import json
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from turnwise.system.files.atomic_write import write_atomically
from turnwise.system.files.regular_files import MAX_LINE_BYTES, Damaged, lines_from, open_to_append

logger = logging.getLogger(__name__)


class Lines:
    """A file of JSON lines; opening it removes an unfinished last line, which a kill leaves behind."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open_to_append(path)
        _cut_torn_line(path)

    def close(self) -> None:
        self._file.close()

    def append(
        self,
        step: int,
        kind: str,
        metrics: Mapping[str, float],
        histograms: Mapping[str, Any],
        alarms: Sequence[Any],
    ) -> None:
        record = {"step": step, "kind": kind, "time": round(time.time(), 3), "metrics": plain(metrics)}
        if histograms:
            record["histograms"] = plain(histograms)
        if alarms:
            record["alarms"] = plain(alarms)
        line = json.dumps(record, allow_nan=False, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")  # a single append: only the last line can be torn
        os.fsync(self._file.fileno())  # a checkpoint on disk implies its metrics on disk

    def later(self, num_steps: int) -> list[bytes]:
        """The lines of step `num_steps` and later, and those that are not ours."""
        lines = (line.content for line in lines_from(self._path))
        return [line for line in lines if not _is_before(line, num_steps)]

    def cut(self, num_steps: int) -> None:
        """Drop what `later` returns."""
        kept = [line.content for line in lines_from(self._path) if _is_before(line.content, num_steps)]
        self._file.close()
        write_atomically(self._path, b"".join(line + b"\n" for line in kept))
        self._file = open_to_append(self._path)


def plain(value: Any) -> Any:
    """Convert to JSON values: dataclasses to objects, NaN and infinity to null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def step_of(line: bytes) -> int | None:
    """The step of a line; None if the line is not one of ours."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _is_before(line: bytes, num_steps: int) -> bool:
    step = step_of(line)
    return step is not None and step < num_steps


def _cut_torn_line(path: Path) -> None:
    """Remove the last line if it has no newline. Damaged if it is longer than MAX_LINE_BYTES."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(max(0, size - MAX_LINE_BYTES))
        end = file.tell() + file.read().rfind(b"\n") + 1
        if end == size:
            return
        if end == size - MAX_LINE_BYTES:
            raise Damaged(path, f"ends with a line of more than {MAX_LINE_BYTES:,} bytes")
        logger.warning("%s: cut off a torn line", path)
        file.truncate(end)
