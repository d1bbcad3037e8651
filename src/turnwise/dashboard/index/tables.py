"""The SQLite tables of a run's index; recreated if they have another version."""

import contextlib
import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

VERSION = 7
"""The schema's version: an index of another version is rebuilt."""

NEW_FILE = "INSERT INTO files (name, inode, offset, tail, num_bad) VALUES (?, 0, 0, '', 0)"

_TABLES = """
CREATE TABLE files (id INTEGER PRIMARY KEY, name TEXT UNIQUE, inode INTEGER, offset INTEGER, tail TEXT,
  num_bad INTEGER);
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE figures (name INTEGER, step INTEGER, value REAL, PRIMARY KEY (name, step)) WITHOUT ROWID;
CREATE TABLE times (step INTEGER PRIMARY KEY, time REAL);
CREATE TABLE histograms (name TEXT, step INTEGER, edges TEXT, counts TEXT, PRIMARY KEY (name, step));
CREATE TABLE alarms (step INTEGER, name TEXT, level TEXT, value REAL, threshold REAL, message TEXT);
CREATE TABLE offers (file INTEGER, digest TEXT, offset INTEGER, length INTEGER, PRIMARY KEY (file, digest));
CREATE TABLE episodes (id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER, offset INTEGER, length INTEGER,
  digest TEXT, source TEXT, step INTEGER, task TEXT, family TEXT, difficulty TEXT, episode TEXT, reward REAL,
  is_success INTEGER, stop TEXT, fault TEXT, num_turns INTEGER, num_calls INTEGER, num_tokens INTEGER,
  seconds REAL, engine_seconds REAL, tool_seconds REAL,
  question TEXT, answer TEXT, expected TEXT, answer_number REAL, expected_number REAL, failed_check TEXT,
  messages TEXT);
CREATE INDEX episodes_step ON episodes (step);
CREATE INDEX episodes_task ON episodes (task, step);
CREATE INDEX episodes_file ON episodes (file);
CREATE TABLE calls (episode INTEGER, file INTEGER, source TEXT, step INTEGER, tool TEXT, server TEXT,
  cause TEXT, seconds REAL, num_retries INTEGER);
CREATE INDEX calls_tool ON calls (source, tool, seconds, step, cause, num_retries, server);
CREATE INDEX calls_server ON calls (source, server, seconds, step);
CREATE INDEX calls_name ON calls (tool, cause, episode);
CREATE INDEX calls_cause ON calls (cause, episode);
CREATE INDEX calls_episode ON calls (episode, tool);
CREATE INDEX calls_file ON calls (file);
CREATE INDEX calls_failed ON calls (source, step, tool, server, cause) WHERE cause <> 'ok';
CREATE TABLE traces (step INTEGER, episode TEXT, file INTEGER, offset INTEGER, length INTEGER,
  PRIMARY KEY (step, episode)) WITHOUT ROWID;
CREATE INDEX traces_file ON traces (file);
CREATE TABLE searched (episode INTEGER);
INSERT INTO searched VALUES (0);
"""

_WORDS = "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(body, content='', columnsize=0)"
"""The texts of episodes by their id, without a copy of them. `searched` has the last id that is in it."""


def is_current(path: Path) -> bool:
    """Whether the file has the tables in this version."""
    try:
        with contextlib.closing(connect(path)) as connection:
            return bool(connection.execute("PRAGMA user_version").fetchone()[0] == VERSION)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        logger.warning("%s: not readable, so it is made anew", path)
        return False


def is_damage(error: sqlite3.Error) -> bool:
    """Whether SQLite found its file damaged, or gone."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN)


def recreate(path: Path) -> None:
    """Create empty tables in place of the file."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink(missing_ok=True)
    with contextlib.closing(connect(path)) as connection:
        connection.executescript(f"{_TABLES} PRAGMA user_version = {VERSION};")


def add_words(path: Path) -> bool:
    """Create the table of the full-text search; return whether this SQLite has one."""
    try:
        with contextlib.closing(connect(path)) as connection:
            connection.execute(_WORDS)
            connection.execute("SELECT rowid FROM words WHERE words MATCH 'x'")
            return True
    except sqlite3.OperationalError as error:
        logger.info("%s: no full-text search: %s", path, error)
        return False


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # a cache: it is rebuilt if lost
    return connection


def new_row(connection: sqlite3.Connection, statement: str, *values: Any) -> int:
    number = connection.execute(statement, values).lastrowid
    assert number is not None
    return number


def forget(connection: sqlite3.Connection, file: int, name: str) -> None:
    """Delete all rows that came from a file."""
    if name == "metrics.jsonl":
        for table in ("figures", "times", "histograms", "alarms"):
            connection.execute(f"DELETE FROM {table}")  # noqa: S608 (our own table names)
    else:
        for table in ("episodes", "calls", "offers", "traces"):
            connection.execute(f"DELETE FROM {table} WHERE file = ?", (file,))  # noqa: S608
    connection.execute("DELETE FROM files WHERE id = ?", (file,))


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")  # two `turnwise view` processes may index one run
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
