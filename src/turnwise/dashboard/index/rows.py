"""The rows that the lines of a run's files become: figures, alarms, episodes, calls."""

import json
import logging
import math
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Any

from turnwise.dashboard.index.episodes import episode_of, text, tools_of
from turnwise.dashboard.index.tables import new_row
from turnwise.system.files.json_lines import plain
from turnwise.system.files.regular_files import FileLine
from turnwise.types import Tool

logger = logging.getLogger(__name__)

ReadLine = Callable[[int, int, int], dict[str, Any]]
"""`line(file, offset, length)` parses one line of a run's file. LookupError if it is no longer there."""

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


class Rows:
    """Stores lines in the tables of an index."""

    def __init__(self, line: ReadLine) -> None:
        self._line = line
        self._names: dict[str, int] = {}
        self._offers: dict[tuple[int, str], tuple[Tool, ...]] = {}

    def begin(self) -> None:
        """Called at the start of a transaction: names of an earlier one may have been rolled back."""
        self._names.clear()

    def keep(self, connection: sqlite3.Connection, file: int, name: str, line: FileLine) -> bool:
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
            offered = offer(self._line, connection, file, digest)
            self._offers[(file, digest)] = tools_of(offered) if offered else ()
        return self._offers[(file, digest)]


def offer(line: "ReadLine", connection: sqlite3.Connection, file: int, digest: str) -> dict[str, Any] | None:
    """The line of kind `tools` with this digest; None if the file has none."""
    row = connection.execute(
        "SELECT offset, length FROM offers WHERE file = ? AND digest = ?", (file, digest)
    ).fetchone()
    return line(file, row["offset"], row["length"]) if row else None


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


def _number(value: Any) -> float | None:
    return None if value is None or plain(float(value)) is None else float(value)
