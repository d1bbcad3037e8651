"""The log files of a run, a page at a time from the end; a file of any size is read by offset."""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnwise.dashboard.headings import of_log
from turnwise.records.ending import read_ending
from turnwise.system.files.regular_files import Damaged, names_in, open_to_read

MAX_LINES = 500
MAX_LINE_CHARS = 4_000
MAX_SCANNED_BYTES = 8 << 20
"""The most bytes that one request reads; a search goes on from there with the next request."""

_BLOCK_BYTES = 256 << 10
_MAX_FILES = 50
_MAX_TRACEBACK_CHARS = 20_000
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}\.log")
_HEAD = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} (DEBUG|INFO|WARNING|ERROR|CRITICAL) ")
_CRASH = b"Fatal Python error"
_LEVELS = {b"DEBUG": 0, b"INFO": 1, b"WARNING": 2, b"ERROR": 3, b"CRITICAL": 3}
_LEAST = {"": 0, "warning": 2, "error": 3}
_WORDS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which lines are listed; empty strings are no condition."""

    text: str = ""
    """A substring of the line, in any case."""
    level: str = ""
    """`warning` or `error`: entries of this level and above, with all their lines."""


def log_files(run: Path) -> list[str]:
    """The names of the run's log files, training.log first."""
    try:
        names = [name for name in names_in(run) if _NAME.fullmatch(name)]
    except (FileNotFoundError, Damaged):
        return []
    return sorted(names, key=lambda name: (name != "training.log", name))[:_MAX_FILES]


def log_sizes(run: Path) -> list[int]:
    """The sizes of the log files, which change as the run logs."""
    sizes = []
    for name in log_files(run):
        with contextlib.suppress(OSError):  # removed meanwhile
            sizes.append((run / name).lstat().st_size)
    return sizes


def foreign_traceback(run: Path) -> dict[str, Any] | None:
    """The traceback and rank of a failed process that did not write training.log; None if there is none."""
    try:
        ending = read_ending(run / "ended.json")
    except Damaged:  # reported in RunFacts.problems
        return None
    if ending is None or not ending.traceback:
        return None
    return {"rank": ending.rank, "text": ending.traceback[-_MAX_TRACEBACK_CHARS:]}


def log_page(
    run: Path, name: str, wanted: LogFilter, *, end: int | None = None, limit: int = MAX_LINES
) -> dict[str, Any]:
    """The last `limit` matching lines before byte `end`, oldest first; `start` is where older ones end.

    LookupError if the run has no such log, ValueError for an unknown level or a file that cannot be read.
    """
    if name not in log_files(run):
        raise LookupError(f"no log {name[:40]!r}")
    if wanted.level not in _LEAST:
        raise ValueError(f"level: no {wanted.level[:40]!r}; there are {', '.join(filter(None, _LEAST))}")
    with open_to_read(run / name) as file:
        size = os.fstat(file.fileno()).st_size
        stop = size if end is None else min(max(end, 0), size)
        lines, start = _matching(file.fileno(), stop, wanted, min(max(limit, 1), MAX_LINES))
    heading = of_log([line["level"] for line in lines])
    return {"heading": heading, "file": name, "size": size, "start": start, "end": stop, "lines": lines}


def _matching(file: int, stop: int, wanted: LogFilter, limit: int) -> tuple[list[dict[str, Any]], int]:
    """The matching lines before `stop`, and the offset before which nothing has been looked at."""
    least = max(0, stop - MAX_SCANNED_BYTES)
    matching: list[dict[str, Any]] = []
    entry: list[bytes] = []  # the lines of one entry, newest first
    start = offset = stop
    for offset, content in _backwards(file, stop, least):
        entry.append(content)
        level = _level(content)
        if level is None and len(entry) < MAX_LINES:  # the entry begins further up
            continue
        matching += _listed(entry, level, wanted)
        entry, start = [], offset
        if len(matching) >= limit:
            return matching[::-1], start
    if entry and (least == 0 or start == stop):  # else the next page has the entry from its beginning
        matching, start = [*matching, *_listed(entry, None, wanted)], offset
    return matching[::-1], start


def _backwards(file: int, stop: int, least: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines before `stop` and their offsets, last line first; no byte before `least` is read.

    A line that begins before `least` is left out, unless it is the only one: then its end is yielded.
    """
    if stop <= least:
        return
    end = stop - (os.pread(file, 1, stop - 1) == b"\n")
    rest, is_only = b"", True
    while end > least:
        begin = max(least, end - _BLOCK_BYTES)
        first, *lines = (os.pread(file, end - begin, begin) + rest).split(b"\n")
        place = begin + len(first) + 1 + sum(len(line) + 1 for line in lines)
        for line in reversed(lines):
            place -= len(line) + 1
            yield place, line
            is_only = False
        rest, end = first, begin
    if least == 0 or is_only:
        yield least, rest


def _level(content: bytes) -> int | None:
    """The level that the first line of an entry has; None for a line that continues an entry."""
    if match := _HEAD.match(content):
        return _LEVELS[match[1]]
    return _LEVELS[b"CRITICAL"] if content.startswith(_CRASH) else None


def _listed(entry: list[bytes], level: int | None, wanted: LogFilter) -> list[dict[str, Any]]:
    known = _LEVELS[b"INFO"] if level is None else level
    if known < _LEAST[wanted.level]:
        return []
    fitting = [line for line in entry if wanted.text.lower() in line.decode("utf-8", "replace").lower()]
    return [{"text": _text(line), "level": _WORDS[known]} for line in fitting]


def _text(content: bytes) -> str:
    shown = content[: 4 * MAX_LINE_CHARS].decode("utf-8", "replace")
    if len(shown) <= MAX_LINE_CHARS and len(content) <= 4 * MAX_LINE_CHARS:
        return shown
    return f"{shown[:MAX_LINE_CHARS]}… [a line of {len(content):,} bytes]"
