"""The full-text index of a run's episodes (SQLite FTS5), filled in the background.

It has no copy of the texts: excerpts are read from the run's files. Rows of removed episodes stay in it, and
no episode ever gets their id again.
"""

import json
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from turnwise.dashboard.index.appended_file import read_at
from turnwise.dashboard.index.episodes import text
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.index.search_terms import (
    MAX_TERMS,
    Passage,
    excerpt_of,
    match_of,
    passages_of,
    terms_of,
)
from turnwise.dashboard.index.tables import transaction
from turnwise.dashboard.views.token_texts import Pieces

MAX_CHARS = 1_000_000
"""The most characters of one episode that are searched."""

_EPISODES_AT_ONCE = 100
"""Episodes per transaction: short ones, since another `turnwise view` of the run waits for them."""

_NOT_THERE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""Errors of a line that was replaced or has another shape; its episode is found by no search."""


@dataclass(frozen=True, slots=True)
class SearchState:
    """How much of a run can be searched."""

    num_searched: int
    """All of them where nothing can be searched: there is nothing to wait for."""
    num_episodes: int
    problem: str = ""
    """Why not all of what was typed is searched for; empty if all of it is."""


def fill(index: Index, pieces: Pieces, *, seconds: float) -> bool:
    """Add episodes to the full-text index for about `seconds`; return whether there were any to add."""
    deadline, has_added = time.monotonic() + seconds, False
    if not index.can_search:
        return False
    with index.writing() as connection:
        while _add(index, connection, pieces):
            has_added = True
            if time.monotonic() > deadline:
                break
    return has_added


def find(connection: sqlite3.Connection, typed: str) -> None:
    """Put the ids of the episodes that a search finds into the temporary table `hits`."""
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("CREATE TEMP TABLE hits (id INTEGER PRIMARY KEY)")
    connection.execute("INSERT INTO hits SELECT rowid FROM words WHERE words MATCH ?", (match_of(typed),))


def state(index: Index, connection: sqlite3.Connection, typed: str) -> SearchState:
    """How far the search is, and what is wrong with it."""
    num_searched, num_episodes = connection.execute(
        "SELECT (SELECT count(*) FROM episodes WHERE id <= (SELECT episode FROM searched)), "
        "(SELECT count(*) FROM episodes)"
    ).fetchone()
    if not index.can_search:
        problem = "SQLite has no FTS5 on this machine, so texts cannot be searched. All else works."
        return SearchState(num_episodes, num_episodes, problem)
    num_terms = len(terms_of(typed))
    note = (
        f"Only the first {MAX_TERMS} of {num_terms} words are searched for." if num_terms > MAX_TERMS else ""
    )
    return SearchState(num_searched, num_episodes, note if num_terms else "There is no word to search for.")


def excerpts(
    index: Index,
    connection: sqlite3.Connection,
    rows: Sequence[sqlite3.Row],
    typed: str,
    pieces: Pieces | None,
) -> list[dict[str, Any] | None]:
    """The excerpt of each row of `episodes`; None if its line is gone or the hit cannot be shown."""
    marks = ", ".join("?" * len(rows))
    names = dict(
        connection.execute(
            f"SELECT id, name FROM files WHERE id IN ({marks})",  # noqa: S608
            [row["file"] for row in rows],
        ).fetchall()
    )
    cut = [excerpt_of(_passages(index, names.get(row["file"], ""), row, pieces), typed) for row in rows]
    return [asdict(excerpt) if excerpt else None for excerpt in cut]


def _add(index: Index, connection: sqlite3.Connection, pieces: Pieces) -> bool:
    """Add some episodes and move the mark in one transaction; return whether there were any."""
    with transaction(connection):
        rows = connection.execute(
            "SELECT episodes.id AS id, name, episodes.offset AS offset, length FROM episodes "
            "JOIN files ON files.id = file WHERE episodes.id > (SELECT episode FROM searched) "
            "ORDER BY episodes.id LIMIT ?",
            (_EPISODES_AT_ONCE,),
        ).fetchall()
        if not rows:
            return False
        added = ((row["id"], _searched_text(_passages(index, row["name"], row, pieces))) for row in rows)
        connection.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", added)
        connection.execute("UPDATE searched SET episode = ?", (rows[-1]["id"],))
    return True


def _searched_text(passages: Sequence[Passage]) -> str:
    return text("\n".join(passage.text for passage in passages)[:MAX_CHARS])


def _passages(index: Index, name: str, row: sqlite3.Row, pieces: Pieces | None) -> list[Passage]:
    try:
        record = json.loads(read_at(index.run / name, row["offset"], row["length"]))
        return list(passages_of(record, pieces))
    except _NOT_THERE:
        return []
