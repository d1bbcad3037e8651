"""Which episodes are listed: filters and their choices, groups, and the history of a task."""

from dataclasses import dataclass
from typing import Any

from turnwise.dashboard.index.index import Index
from turnwise.types import Cause

MAX_PAGE = 200

ANY_ERROR = "any"
"""The value of `error` that stands for every class."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The conditions that listed episodes must meet; None or an empty string is no condition."""

    source: str = ""
    first: int | None = None
    last: int | None = None
    task: str = ""
    """A substring of the task's id, in any case."""
    family: str | None = None
    difficulty: str = ""
    low: float | None = None
    """The least reward; `high` is the largest."""
    high: float | None = None
    is_success: bool | None = None
    stop: str = ""
    fault: str = ""
    tool: str = ""
    error: str = ""
    """A class of failed calls (`timeout`, `bad_arguments`, …) or `any`; with `tool`, of its calls only."""
    check: str = ""
    """The first check that failed: `answer`, `tools`, `writes`, …"""
    search: str = ""
    """Words and "quoted phrases" that all occur in what the user, the model and the tools said."""


def choices(index: Index) -> dict[str, Any]:
    """The values of each filter, with counts: of calls for `tool` and `error`, else of episodes."""
    with index.reading() as connection:
        choices: dict[str, Any] = {}
        for column in ("source", "family", "difficulty", "stop", "fault", "failed_check"):
            rows = connection.execute(
                f"SELECT {column} AS value, count(*) AS num FROM episodes GROUP BY {column} ORDER BY {column}"  # noqa: S608
            )
            choices[column] = [dict(row) for row in rows]
        rows = connection.execute(
            "SELECT tool AS value, count(*) AS num FROM calls GROUP BY tool ORDER BY tool"
        )
        choices["tool"] = [dict(row) for row in rows]
        rows = connection.execute("SELECT cause AS value, count(*) AS num FROM calls GROUP BY cause")
        choices["error"] = [dict(row) for row in rows if row["value"] != Cause.OK]
        [choices["num_episodes"]] = connection.execute("SELECT count(*) FROM episodes").fetchone()
        [num_bad] = connection.execute("SELECT sum(num_bad) FROM files").fetchone()
        choices["num_bad_lines"] = num_bad or 0
    return choices


def members(index: Index, episode: int) -> list[int]:
    """The ids of the episode's group: all episodes of its task in one step or evaluation (one file).

    LookupError if there is no such episode.
    """
    with index.reading() as connection:
        row = connection.execute("SELECT file, task FROM episodes WHERE id = ?", (episode,)).fetchone()
        if row is None:
            raise LookupError(f"no episode {episode}")
        rows = connection.execute(
            "SELECT id FROM episodes WHERE file = ? AND task = ? ORDER BY id", (row["file"], row["task"])
        )
        return [row["id"] for row in rows]


def of_task(index: Index, task: str) -> list[dict[str, Any]]:
    """For every file with episodes of this task, by step: the means of reward and success, and one id."""
    with index.reading() as connection:
        rows = connection.execute(
            "SELECT source, step, count(*) AS num, avg(reward) AS reward, avg(is_success) AS success, "
            "min(id) AS id FROM episodes WHERE task = ? GROUP BY file "
            "ORDER BY step, source <> 'before', source = 'after', source",
            (task,),
        )
        return [dict(row) for row in rows]


def condition(wanted: Filter) -> tuple[str, list[Any]]:
    """The WHERE clause of a filter, and the values to bind; `hits` has the ids that a search finds."""
    asked: list[tuple[str, Any]] = [
        ("source = ?", wanted.source or None),
        ("step >= ?", wanted.first),
        ("step <= ?", wanted.last),
        ("instr(lower(task), lower(?)) > 0", wanted.task or None),
        ("family = ?", wanted.family),
        ("difficulty = ?", wanted.difficulty or None),
        ("reward >= ?", wanted.low),
        ("reward <= ?", wanted.high),
        ("is_success = ?", wanted.is_success),
        ("stop = ?", wanted.stop or None),
        ("fault = ?", wanted.fault or None),
        ("failed_check = ?", wanted.check or None),
        ("+id IN (SELECT id FROM hits) AND ?", True if wanted.search else None),
    ]
    chosen = [(words, value) for words, value in asked if value is not None]
    calls, values = _calls(wanted)
    conditions = [words for words, _ in chosen] + calls
    return " AND ".join(conditions) or "1", [value for _, value in chosen] + values


def _calls(wanted: Filter) -> tuple[list[str], list[str]]:
    """The condition that an episode has a call to the tool, with the error, or both."""
    asked = [("tool = ?", [wanted.tool])] if wanted.tool else []
    if wanted.error:
        asked.append(("cause <> 'ok'", []) if wanted.error == ANY_ERROR else ("cause = ?", [wanted.error]))
    where = " AND ".join(words for words, _ in asked)
    values = [value for _, bound in asked for value in bound]
    return ([f"id IN (SELECT episode FROM calls WHERE {where})"] if asked else []), values  # noqa: S608
