"""The index of one run: an SQLite database outside the run's folder, updated as the run grows.

Every refresh reads on from where the last one ended and leaves an unfinished line for the next. A file that a
resumed run has cut or replaced is dropped from the index and read again from its start.
"""

import contextlib
import hashlib
import itertools
import json
import logging
import math
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from turnwise.dashboard.index.appended_file import Mark, is_same, mark_at, read_at
from turnwise.dashboard.index.episodes import episode_of, text, tools_of
from turnwise.dashboard.index.tables import (
    NEW_FILE,
    add_words,
    connect,
    forget,
    is_current,
    is_damage,
    new_row,
    recreate,
    transaction,
)
from turnwise.system.files.json_lines import plain
from turnwise.system.files.regular_files import Damaged, FileLine, lines_from, make_private_folder, names_in
from turnwise.types import Tool

logger = logging.getLogger(__name__)

_LINES_AT_ONCE = 2_000
_BYTES_AT_ONCE = 16 << 20
_FOLDERS = ("evaluations", "trajectories", "tokens")
_NUM_LAST = 64
"""The last files of each folder, which may still grow. Older ones are checked every 30th refresh."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}\.jsonl")
"""The names of a run's own files. Other names may not even be valid UTF-8, which SQLite needs."""

_MAX_STEP = 2**53
"""The largest integer up to which JavaScript numbers are exact."""

_NOT_OURS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    OverflowError,
    sqlite3.DataError,
)


class Index:
    """The index of one run. `refresh` reads new lines; it is thread-safe, one call runs at a time."""

    def __init__(self, run: Path, cache: Path) -> None:
        self.run = run.resolve()
        name = hashlib.blake2b(os.fsencode(self.run), digest_size=12).hexdigest()
        make_private_folder(cache)
        self.path = cache / f"{name}.sqlite"
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[int, int]] = {}
        self._num_refreshed = 0
        self.num_changes = 0
        """The number of refreshes that found something new."""
        self.is_behind = False
        """Whether the last refresh left lines unread."""
        self._names: dict[str, int] = {}
        self._folders: list[int] = []
        self._known_files: list[str] = []
        self._offers: dict[tuple[int, str], tuple[Tool, ...]] = {}
        self._damaged: dict[str, str] = {}
        self._fault = ""
        self.is_damaged = False
        """Whether the index's own file was found damaged; the next refresh rebuilds it."""
        self.can_search = False
        """Whether SQLite has FTS5 here, so that texts can be searched."""
        if not is_current(self.path):
            recreate(self.path)
        try:
            self.can_search = add_words(self.path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._rebuild()

    @property
    def problems(self) -> list[str]:
        """One line for each file or folder that could not be read in full."""
        faults = [f"{name}: {reason}" for name, reason in sorted(self._damaged.copy().items())]
        with self.reading() as connection:
            rows = connection.execute("SELECT name, num_bad FROM files WHERE num_bad > 0 ORDER BY name")
            faults += [f"{row['name']}: {row['num_bad']} of its lines cannot be read" for row in rows]
        return [*faults, self._fault] if self._fault else faults

    def give_up(self, reason: str) -> bool:
        """Report the folder as unreadable until a refresh succeeds; return whether the report is new."""
        fault = f"the folder could not be read: {reason}"
        is_news, self._fault, self.is_behind = fault != self._fault, fault, False
        return is_news

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A read-only connection."""
        with self._noticing_damage():
            connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=10)
            connection.row_factory = sqlite3.Row
            with contextlib.closing(connection):
                yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        with self._noticing_damage(), contextlib.closing(connect(self.path)) as connection:
            yield connection

    @contextlib.contextmanager
    def _noticing_damage(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            self.is_damaged |= is_damage(error)
            raise

    def refresh(self, *, seconds: float = math.inf) -> bool:
        """Read new lines for about `seconds`; return whether anything changed. A damaged index is rebuilt."""
        deadline = time.monotonic() + seconds
        with self._lock:
            if self.is_damaged or not is_current(self.path):  # its file may also have been removed
                self._rebuild()
            try:
                return self._refresh(deadline)
            except sqlite3.DatabaseError:
                if not self.is_damaged:
                    raise
                self._rebuild()
                return self._refresh(deadline)

    def _rebuild(self) -> None:
        """Start over with an empty index; every row comes from the run's files again."""
        logger.warning("%s is damaged, so it is made anew", self.path)
        recreate(self.path)
        self.can_search = add_words(self.path)
        self._seen, self._num_refreshed, self._folders, self._offers = {}, 0, [], {}
        self.is_damaged, self.is_behind = False, True

    def _refresh(self, deadline: float) -> bool:
        with self.writing() as connection:
            files, is_changed = self._listed(connection)
            if not self._num_refreshed:  # another `turnwise view` may have read some already
                rows = connection.execute("SELECT name, inode, offset FROM files")
                self._seen = {row["name"]: (row["inode"], row["offset"]) for row in rows}
            due, self.is_behind = self._due(files), False
            for number, (file, status) in enumerate(due):
                has_new, is_done = self._read(connection, file, status, deadline)
                is_changed |= has_new
                self.is_behind = not is_done or number + 1 < len(due)
                if time.monotonic() > deadline:
                    break
            self._num_refreshed += not self.is_behind
            is_changed |= bool(self._fault)
            self._fault = ""
            self.num_changes += is_changed
            return is_changed

    def line(self, file: int, offset: int, length: int) -> dict[str, Any]:
        """Parse one line of a run's file. LookupError if it is no longer there."""
        with self.reading() as connection:
            row = connection.execute("SELECT name FROM files WHERE id = ?", (file,)).fetchone()
        if row is None:
            raise LookupError("the file is no longer in the run")
        try:
            record = json.loads(read_at(self.run / row["name"], offset, length))
        except (OSError, ValueError, RecursionError) as error:
            raise LookupError(f"the line is no longer there: {type(error).__name__}") from None
        if not isinstance(record, dict):
            raise LookupError("the line is no longer there: it is another one")
        return record

    # --- which files ---------------------------------------------------------------------------------------

    def _listed(self, connection: sqlite3.Connection) -> tuple[list[str], bool]:
        """The run's files, and whether indexed ones are gone.

        Folders are listed again if one has changed, and every 30th refresh.
        """
        folders = [self.run, *(self.run / name for name in _FOLDERS)]
        now = [_changed_at(folder) for folder in folders]
        if now == self._folders and self._num_refreshed % 30:
            return self._known_files, False
        # the times were taken before listing: a file added meanwhile is found by the next refresh
        self._folders, self._known_files = now, self._files()
        return self._known_files, self._forget_lost(connection, self._known_files)

    def _files(self) -> list[str]:
        """The files to read, in order: metrics first, so that the page shows something soon; tokens last."""
        names = ["metrics.jsonl"] if os.path.lexists(self.run / "metrics.jsonl") else []
        for folder in _FOLDERS:
            self._damaged.pop(folder, None)
            try:
                names += [f"{folder}/{name}" for name in names_in(self.run / folder) if _NAME.fullmatch(name)]
            except FileNotFoundError:
                continue
            except Damaged as error:
                self._damaged[folder] = error.reason
        return names

    def _due(self, files: list[str]) -> list[tuple[str, tuple[int, int]]]:
        """The files whose inode or size has changed, with both; old files are checked every 30th refresh."""
        is_sweep = self._num_refreshed % 30 == 0
        folders = itertools.groupby(files, key=lambda file: file.rpartition("/")[0])
        late = {file for _, names in folders for file in list(names)[-_NUM_LAST:]}
        due = []
        for file in files:
            if is_sweep or file in late or file not in self._seen:
                with contextlib.suppress(FileNotFoundError):  # removed by a resume after the listing
                    try:
                        status = (self.run / file).lstat()
                    except PermissionError as error:
                        self._damaged[file] = f"cannot be read: {error.strerror}"
                        continue
                    now = (status.st_ino, status.st_size)
                    if self._seen.get(file) != now:
                        due.append((file, now))
        return due

    def _forget_lost(self, connection: sqlite3.Connection, files: list[str]) -> bool:
        known = {row["name"]: row["id"] for row in connection.execute("SELECT id, name FROM files")}
        lost = known.keys() - set(files)
        for name in lost:
            with transaction(connection):
                forget(connection, known[name], name)
            self._seen.pop(name, None)
        for name in self._damaged.keys() - set(files) - set(_FOLDERS):
            del self._damaged[name]
        return bool(lost)

    # --- reading -------------------------------------------------------------------------------------------

    def _read(
        self, connection: sqlite3.Connection, name: str, seen: tuple[int, int], deadline: float
    ) -> tuple[bool, bool]:
        """Read one file until the deadline; return (anything changed, reached its end)."""
        before, self._damaged = self._damaged, {**self._damaged}
        self._damaged.pop(name, None)
        is_changed = False
        try:
            while self._read_part(connection, name):
                is_changed = True
                if name not in self._damaged and time.monotonic() > deadline:
                    return True, False
            self._seen[name] = seen
        except FileNotFoundError:  # removed by a resume after `_due`
            self._seen.pop(name, None)
        except Damaged as error:
            self._damaged[name], self._seen[name] = error.reason, seen
        return is_changed or self._damaged != before, True

    def _read_part(self, connection: sqlite3.Connection, name: str) -> bool:
        """Store some lines and the new mark in one transaction; return whether there may be more lines."""
        path = self.run / name
        with transaction(connection):
            self._names.clear()
            row = connection.execute("SELECT * FROM files WHERE name = ?", (name,)).fetchone()
            mark = Mark(row["inode"], row["offset"], row["tail"]) if row else Mark()
            if row and not is_same(path, mark):
                forget(connection, row["id"], name)
                row, mark = None, Mark()
            file = row["id"] if row else new_row(connection, NEW_FILE, name)
            num_bad, end, damage = 0, mark.offset, ""
            try:
                for number, line in enumerate(lines_from(path, mark.offset)):
                    if not line.is_ended:
                        break
                    num_bad += not self._keep(connection, file, name, line)
                    end = line.end
                    if number >= _LINES_AT_ONCE or end - mark.offset > _BYTES_AT_ONCE:
                        break
            except Damaged as error:  # the lines before the damage are kept
                damage = error.reason
            now = mark_at(path, end)
            connection.execute(
                "UPDATE files SET inode = ?, offset = ?, tail = ?, num_bad = num_bad + ? WHERE id = ?",
                (now.inode, now.offset, now.tail, num_bad, file),
            )
        if damage:
            self._damaged[name] = damage
        return end > mark.offset and not damage

    def _keep(self, connection: sqlite3.Connection, file: int, name: str, line: FileLine) -> bool:
        """Store one line; return False, storing nothing, if it is not a valid record of a run."""
        connection.execute("SAVEPOINT line")
        try:
            record = json.loads(line.content)
            if name == "metrics.jsonl":
                self._keep_figures(connection, record)
            elif name.startswith("tokens/"):
                _keep_traced(connection, file, line, record)
            else:
                self._keep_played(connection, file, name, line, record)
        except _NOT_OURS as error:
            connection.execute("ROLLBACK TO line")
            connection.execute("RELEASE line")
            self._names.clear()
            logger.info("%s: skipped the line at byte %d: %s", name, line.offset, type(error).__name__)
            return False
        connection.execute("RELEASE line")
        return True

    def _keep_figures(self, connection: sqlite3.Connection, record: Mapping[str, Any]) -> None:
        step = _step(record["step"])
        connection.execute("INSERT OR REPLACE INTO times VALUES (?, ?)", (step, float(record["time"])))
        rows = [
            (self._name(connection, text(name)), step, _number(value))
            for name, value in record["metrics"].items()
        ]
        # if rollouts and update log the same name, the rollouts' value stays: it is logged first and covers
        # every episode
        connection.executemany("INSERT OR IGNORE INTO figures VALUES (?, ?, ?)", rows)
        for name, histogram in record.get("histograms", {}).items():
            edges, counts = _numbers(histogram["edges"]), _numbers(histogram["counts"])
            values = (text(name), step, json.dumps(edges), json.dumps(counts))
            connection.execute("INSERT OR REPLACE INTO histograms VALUES (?, ?, ?, ?)", values)
        for alarm in record.get("alarms", ()):
            words = (text(alarm["name"]), text(alarm["level"]))
            numbers = (_number(alarm["value"]), _number(alarm["threshold"]))
            connection.execute(
                "INSERT INTO alarms VALUES (?, ?, ?, ?, ?, ?)",
                (step, *words, *numbers, text(alarm["message"])),
            )

    def _name(self, connection: sqlite3.Connection, name: str) -> int:
        if not self._names:
            self._names |= {row["name"]: row["id"] for row in connection.execute("SELECT * FROM names")}
        if name not in self._names:
            self._names[name] = new_row(connection, "INSERT INTO names (name) VALUES (?)", name)
        return self._names[name]

    def _keep_played(
        self, connection: sqlite3.Connection, file: int, name: str, line: FileLine, record: Mapping[str, Any]
    ) -> None:
        place = (line.offset, len(line.content))
        if record["kind"] == "tools":
            self._offers[(file, record["digest"])] = tools_of(record)
            values = (file, text(record["digest"]), *place)
            connection.execute("INSERT OR REPLACE INTO offers VALUES (?, ?, ?, ?)", values)
            return
        if record["kind"] != "trajectory":
            raise ValueError("neither tools nor a trajectory")
        digest = text(record["tools"])
        episode = episode_of(record, self._tools(connection, file, digest))
        source, step = _source(connection, name, episode.step)
        row = (file, *place, digest, source, step, *astuple(episode)[1:-1])
        marks = ", ".join("?" * (len(row) + 1))
        number = new_row(connection, f"INSERT INTO episodes VALUES ({marks})", None, *row)  # noqa: S608
        connection.executemany(
            "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(number, file, source, step, *astuple(call)) for call in episode.calls],
        )

    def _tools(self, connection: sqlite3.Connection, file: int, digest: str) -> tuple[Tool, ...]:
        if (file, digest) not in self._offers:
            offered = offer(self, connection, file, digest)
            self._offers[(file, digest)] = tools_of(offered) if offered else ()
        return self._offers[(file, digest)]


def offer(index: Index, connection: sqlite3.Connection, file: int, digest: str) -> dict[str, Any] | None:
    """The line of kind `tools` with this digest; None if the file has none."""
    row = connection.execute(
        "SELECT offset, length FROM offers WHERE file = ? AND digest = ?", (file, digest)
    ).fetchone()
    return index.line(file, row["offset"], row["length"]) if row else None


def _keep_traced(
    connection: sqlite3.Connection, file: int, line: FileLine, record: Mapping[str, Any]
) -> None:
    """Store only the line's position; its tokens are read when the page asks for them."""
    if record["kind"] != "tokens":
        raise ValueError("not a line of tokens")
    values = (_step(record["step"]), text(record["episode"]), file, line.offset, len(line.content))
    connection.execute("INSERT OR REPLACE INTO traces VALUES (?, ?, ?, ?, ?)", values)


def _source(connection: sqlite3.Connection, name: str, step: int) -> tuple[str, int | None]:
    """`train` and the step; for an evaluation, its name and the number of steps done before it."""
    folder, _, file = name.partition("/")
    if folder == "trajectories":
        return "train", step
    stem = file.partition(".")[0]
    if stem == "after":  # after all steps; metrics.jsonl has been read before
        [last] = connection.execute("SELECT max(step) FROM times").fetchone()
        return stem, None if last is None else last + 1
    number = "0" if stem == "before" else stem.removeprefix("step-")
    return stem, int(number) if number.isdecimal() else None


def _step(value: Any) -> int:
    step = int(value)
    if not 0 <= step <= _MAX_STEP:
        raise ValueError(f"no step has the number {step}")
    return step


def _numbers(values: Any) -> list[float]:
    """Convert to numbers, whole ones to int. ValueError or TypeError if one is not a finite number."""
    numbers = [float(value) for value in values]
    if not all(map(math.isfinite, numbers)):
        raise ValueError("not a finite number")
    return [int(value) if value.is_integer() else value for value in numbers]


def _changed_at(folder: Path) -> int:
    """The folder's modification time in nanoseconds; 0 if it cannot be read."""
    try:
        return folder.lstat().st_mtime_ns
    except OSError:
        return 0


def _number(value: Any) -> float | None:
    return None if value is None or plain(float(value)) is None else float(value)
