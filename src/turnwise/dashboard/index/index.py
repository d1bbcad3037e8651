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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnwise.dashboard.index.appended_file import Mark, is_same, mark_at, read_at
from turnwise.dashboard.index.rows import Rows
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
from turnwise.system.files.regular_files import Damaged, lines_from, make_private_folder, names_in

logger = logging.getLogger(__name__)

_LINES_AT_ONCE = 2_000
_BYTES_AT_ONCE = 16 << 20
_FOLDERS = ("evaluations", "trajectories", "tokens")
_NUM_LAST = 64
"""The last files of each folder, which may still grow. Older ones are checked every 30th refresh."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}\.jsonl")
"""The names of a run's own files. Other names may not even be valid UTF-8, which SQLite needs."""


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
        self._folders: list[int] = []
        self._known_files: list[str] = []
        self._rows = Rows(self.line)
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
        self._seen, self._num_refreshed, self._folders, self._rows = {}, 0, [], Rows(self.line)
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
            self._rows.begin()
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
                    num_bad += not self._rows.keep(connection, file, name, line)
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


def _changed_at(folder: Path) -> int:
    """The folder's modification time in nanoseconds; 0 if it cannot be read."""
    try:
        return folder.lstat().st_mtime_ns
    except OSError:
        return 0
