"""Metrics over steps, reduced to as many points as a screen can show."""

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnwise.dashboard.index.index import Index

MAX_POINTS = 400
"""About a chart's width in pixels."""

MAX_COLUMNS = 160
"""The most columns of a histogram over steps."""

AXES = ("step", "time", "tokens")
"""What figures can be drawn over: steps, hours since the run's start, or tokens sampled so far."""

_MEASURED = {
    "heldout/success": ("avg(is_success)", "source IN ('before', 'after')"),
    "heldout/reward": ("avg(reward)", "source IN ('before', 'after')"),
    "validation/reward": ("avg(reward)", "source LIKE 'step-%'"),
}
"""Figures that metrics.jsonl lacks; they are computed from the episodes of evaluations.

The SQL aggregate and the condition on the source, by name.
"""


def names(index: Index) -> list[str]:
    with index.reading() as connection:
        rows = connection.execute(
            "SELECT name FROM names WHERE EXISTS (SELECT 1 FROM figures WHERE figures.name = names.id)"
        )
        logged = {row["name"] for row in rows}
    return sorted(logged | {name for name in _MEASURED if _measured(index, name)})


def series(
    index: Index,
    wanted: Sequence[str],
    *,
    first: int = 0,
    last: int | None = None,
    num_points: int = MAX_POINTS,
    axis: str = "step",
) -> dict[str, dict[str, list[Any]]]:
    """The last step, mean, minimum and maximum of each bucket of steps, by name.

    A bucket is one step unless there are more steps than points. Without a finite value these are null. A
    figure of evaluations has their `sources`. On another axis than steps, `xs` are the places of the steps.
    """
    with index.reading() as connection:
        last = _last_step(connection) if last is None else last
        lines = {name: _one(connection, name, first, last, max(1, num_points)) for name in wanted}
    for name in wanted:
        points = _measured(index, name) if name in _MEASURED and not lines[name]["steps"] else ()
        shown = [point for point in points if first <= point[1] <= last]
        if shown:
            sources, steps, values = (list(column) for column in zip(*shown, strict=True))
            lines[name] = {"sources": sources, "steps": steps, "values": values, "lows": values}
            lines[name]["highs"] = values
    if axis == "step":
        return lines
    known = places(index, axis)
    return {name: _placed(line, known) for name, line in lines.items()}


def places(index: Index, axis: str) -> dict[int, float]:
    """The place of each step's end on an axis, ascending; a step without one is left out."""
    with index.reading() as connection:
        if axis == "step":
            rows = connection.execute("SELECT step, step AS place FROM times ORDER BY step")
        elif axis == "time":
            rows = connection.execute(_HOURS)
        else:
            rows = connection.execute(_TOKENS)
        by_step: dict[int, float] = {}
        highest = 0.0
        for row in rows:  # the clock of a machine may be set back
            highest = max(highest, row["place"] or 0.0)
            by_step[row["step"]] = highest
        return by_step


_HOURS = """
SELECT step, (time - (SELECT min(time) FROM times) + (
    SELECT coalesce(sum(value), 0) FROM figures JOIN names ON names.id = figures.name
    WHERE step = (SELECT min(step) FROM times) AND names.name LIKE 'time/%_seconds'
)) / 3600 AS place FROM times ORDER BY step
"""
"""A step's line is written at its end: the run began as long before the first one as that step took."""

_TOKENS = """
SELECT speed.step AS step, sum(speed.value * spent.value) OVER (ORDER BY speed.step) AS place
FROM figures AS speed JOIN figures AS spent ON spent.step = speed.step
WHERE speed.name = (SELECT id FROM names WHERE name = 'rollout/tokens_per_second')
  AND spent.name = (SELECT id FROM names WHERE name = 'time/rollout_seconds') ORDER BY speed.step
"""


def span(index: Index, axis: str, low: float | None, high: float | None) -> tuple[int, int]:
    """The first and last step whose places lie from `low` to `high`; (1, 0) if there is none."""
    known = places(index, axis).items()
    inside = [step for step, x in known if (low is None or x >= low) and (high is None or x <= high)]
    return (inside[0], inside[-1]) if inside else (1, 0)


def _placed(line: dict[str, list[Any]], known: dict[int, float]) -> dict[str, list[Any]]:
    """The line with its points' places; points without one are left out."""
    kept = [place for place, step in enumerate(line["steps"]) if step in known]
    placed = {name: [column[place] for place in kept] for name, column in line.items()}
    placed["xs"] = [known[step] for step in placed["steps"]]
    if "before" in placed.get("sources", ()):
        placed["xs"][placed["sources"].index("before")] = 0.0
    return placed


def latest(index: Index, wanted: Sequence[str]) -> dict[str, float | None]:
    """The newest logged value of each name; None if there is none or it is not finite."""
    with index.reading() as connection:
        values = {}
        for name in wanted:
            row = connection.execute(
                "SELECT value FROM figures WHERE name = (SELECT id FROM names WHERE name = ?) "
                "ORDER BY step DESC LIMIT 1",
                (name,),
            ).fetchone()
            values[name] = row["value"] if row else None
        return values


def last_step(index: Index) -> int | None:
    """The newest step with logged metrics."""
    with index.reading() as connection:
        row = connection.execute("SELECT max(step) AS step FROM times").fetchone()
        return None if row["step"] is None else int(row["step"])


def histogram(index: Index, name: str, *, first: int = 0, last: int | None = None) -> dict[str, Any]:
    """`edges`, and `columns` of counts by step; adjacent steps are summed if there are over MAX_COLUMNS.

    Steps whose edges differ from the newest step's are left out.
    """
    with index.reading() as connection:
        last = _last_step(connection) if last is None else last
        rows = connection.execute(
            "SELECT step, edges, counts FROM histograms "
            "WHERE name = ? AND step BETWEEN ? AND ? ORDER BY step",
            (name, first, last),
        ).fetchall()
    if not rows:
        return {"edges": [], "columns": []}
    edges = json.loads(rows[-1]["edges"])
    alike = [row for row in rows if row["edges"] == rows[-1]["edges"]]
    width = -(-len(alike) // MAX_COLUMNS)
    parts = [alike[start : start + width] for start in range(0, len(alike), width)]
    return {"edges": edges, "columns": [_column(part) for part in parts]}


def alarms(
    index: Index, *, first: int = 0, last: int | None = None, limit: int = 500, axis: str = "step"
) -> dict[str, Any]:
    """The newest `limit` alarms, and the count of each alarm and level over all the steps asked for.

    On another axis than steps, alarms have their place `x`; None if it is not known.
    """
    with index.reading() as connection:
        last = _last_step(connection) if last is None else last
        rows = connection.execute(
            "SELECT * FROM alarms WHERE step BETWEEN ? AND ? ORDER BY step DESC, rowid LIMIT ?",
            (first, last, limit),
        ).fetchall()
        counts = connection.execute(
            "SELECT name, level, count(*) AS num, min(step) AS first, max(step) AS last FROM alarms "
            "WHERE step BETWEEN ? AND ? GROUP BY name, level ORDER BY num DESC",
            (first, last),
        ).fetchall()
    listed = [dict(row) for row in rows]
    if axis != "step":
        known = places(index, axis)
        listed = [{**alarm, "x": known.get(alarm["step"])} for alarm in listed]
    return {"alarms": listed, "counts": [dict(row) for row in counts]}


def _last_step(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT max(step) AS step FROM times").fetchone()
    return int(row["step"] or 0)


def _one(
    connection: sqlite3.Connection, name: str, first: int, last: int, num_points: int
) -> dict[str, list[Any]]:
    width = max(1, -(-(last - first + 1) // num_points))
    rows = connection.execute(
        "SELECT max(step) AS step, avg(value) AS value, min(value) AS low, max(value) AS high FROM figures "
        "WHERE name = (SELECT id FROM names WHERE name = ?) AND step BETWEEN ? AND ? "
        "GROUP BY (step - ?) / ? ORDER BY step",
        (name, first, last, first, width),
    ).fetchall()
    return {
        "steps": [row["step"] for row in rows],
        "values": [row["value"] for row in rows],
        "lows": [row["low"] for row in rows],
        "highs": [row["high"] for row in rows],
    }


def _measured(index: Index, name: str) -> list[tuple[str, int, float]]:
    """For every finished evaluation, its name, the last training step before it and the figure's mean."""
    mean, which = _MEASURED[name]
    with index.reading() as connection:
        rows = connection.execute(
            # the SQL is built from constants; only the few files of evaluations are read
            f"SELECT source, max(step - 1, 0) AS step, {mean} AS value FROM episodes "  # noqa: S608
            f"WHERE file IN (SELECT id FROM files WHERE name LIKE 'evaluations/%') AND {which} "
            "GROUP BY source ORDER BY step, source = 'after'",
        ).fetchall()
    done = [row for row in rows if _is_finished(index.run / "evaluations" / f"{row['source']}.json")]
    points = [(row["source"], row["step"], row["value"]) for row in done]
    return [point for point in points if None not in point]


def _is_finished(report: Path) -> bool:
    try:
        return report.is_file()
    except OSError:  # no permission to search the folder
        return False


def _column(rows: Sequence[sqlite3.Row]) -> dict[str, Any]:
    counts = [json.loads(row["counts"]) for row in rows]
    total = [sum(column) for column in zip(*counts, strict=False)]
    return {"first": rows[0]["step"], "last": rows[-1]["step"], "counts": total}
