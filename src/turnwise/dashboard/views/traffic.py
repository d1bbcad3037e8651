"""Calls by tool and server: errors by class, latency, retries and breakers."""

import math
import sqlite3
from collections.abc import Mapping
from typing import Any

from turnwise.dashboard.headings import of_tools
from turnwise.dashboard.index.episodes import fault_of
from turnwise.dashboard.index.index import Index

_SHARES = (50, 95, 99)
"""The latency percentiles that are shown."""


def traffic(
    index: Index, *, source: str = "train", first: int = 0, last: int | None = None
) -> dict[str, Any]:
    """One row per tool, one per server, and the time that episodes spent waiting for tools."""
    end = 2**62 if last is None else last
    with index.reading() as connection:
        connection.execute("BEGIN")  # one snapshot: the index may grow between the queries
        tools = _tools(connection, source, first, end)
        [seconds, engine, waiting, num_episodes] = connection.execute(
            "SELECT sum(seconds), sum(engine_seconds), sum(tool_seconds), count(*) FROM episodes "
            "WHERE source = ? AND ifnull(step, 0) BETWEEN ? AND ?",
            (source, first, end),
        ).fetchone()
        latencies = _latencies(connection, "server", (source, first, end))
        breakers = _breakers(connection, first, end) if source == "train" else {}
    return {
        "heading": of_tools(tools),
        "tools": tools,
        "servers": _servers(tools, breakers, latencies),
        "num_episodes": num_episodes,
        "episode_seconds": seconds or 0.0,
        "engine_seconds": engine or 0.0,
        "tool_seconds": waiting or 0.0,
        "waiting_share": (waiting or 0.0) / seconds if seconds else 0.0,
    }


def _tools(connection: sqlite3.Connection, source: str, first: int, last: int) -> list[dict[str, Any]]:
    within = "source = ? AND ifnull(step, 0) BETWEEN ? AND ?"
    values = (source, first, last)
    latencies = _latencies(connection, "tool", values)
    rows = connection.execute(
        f"SELECT tool, max(server) AS server, count(*) AS num, sum(num_retries) AS num_retries, "  # noqa: S608
        f"sum(seconds) AS seconds FROM calls WHERE {within} GROUP BY tool "
        "ORDER BY max(server) = '', max(server), tool",
        values,
    ).fetchall()
    failures: dict[str, dict[str, int]] = {row["tool"]: {} for row in rows}
    for row in connection.execute(  # the index calls_failed has only these; the rest are successes
        f"SELECT tool, cause, count(*) AS num FROM calls WHERE {within} AND cause <> 'ok' "  # noqa: S608
        "GROUP BY tool, cause",
        values,
    ):
        failures[row["tool"]][row["cause"]] = row["num"]
    causes = {
        row["tool"]: ({"ok": num_ok} if (num_ok := row["num"] - sum(failed.values())) else {}) | failed
        for row, failed in ((row, failures[row["tool"]]) for row in rows)
    }
    return [
        {
            "tool": row["tool"],
            "server": row["server"],
            "num_calls": row["num"],
            "causes": causes[row["tool"]],
            "faults": {cause: fault_of(cause) for cause in causes[row["tool"]]},
            "num_errors": sum(num for cause, num in causes[row["tool"]].items() if fault_of(cause) != "none"),
            "num_infra": sum(num for cause, num in causes[row["tool"]].items() if fault_of(cause) == "infra"),
            "num_refused": causes[row["tool"]].get("breaker_open", 0),
            "num_retries": row["num_retries"],
            "seconds": row["seconds"],
            **latencies[row["tool"]],
        }
        for row in rows
    ]


def _servers(
    tools: list[dict[str, Any]],
    breakers: dict[str, dict[str, dict[str, float]]],
    latencies: Mapping[str, Mapping[str, float | None]],
) -> list[dict[str, Any]]:
    """Calls, latency and breaker of every server; null for latency without calls or an unlogged breaker."""
    openings, opened = breakers.get("openings", {}), breakers.get("open", {})
    names = sorted(({tool["server"] for tool in tools} | openings.keys() | opened.keys()) - {""})
    return [
        {
            "server": name,
            "is_open": bool(opened[name]["last"]) if name in opened else None,
            "step": opened[name]["step"] if name in opened else None,
            "num_steps_open": opened[name]["total"] if name in opened else None,
            "num_openings": openings[name]["total"] if name in openings else None,
            "num_calls": sum(tool["num_calls"] for tool in tools if tool["server"] == name),
            **{
                key: sum(tool[key] for tool in tools if tool["server"] == name)
                for key in ("num_infra", "num_refused", "num_retries", "seconds")
            },
            **latencies.get(name, {f"p{share}": None for share in _SHARES}),
        }
        for name in names
    ]


def _breakers(
    connection: sqlite3.Connection, first: int, last: int
) -> dict[str, dict[str, dict[str, float]]]:
    """The last value, its step and the sum of `breaker/open/SERVER` and `breaker/openings/SERVER`."""
    breakers: dict[str, dict[str, dict[str, float]]] = {}
    rows = connection.execute(
        # with max(step), `value` comes from the row of that step: sqlite.org/lang_select.html#bareagg
        "SELECT names.name AS name, max(step) AS step, value AS last, sum(value) AS total FROM figures "
        "JOIN names ON names.id = figures.name "
        "WHERE names.name LIKE 'breaker/%/%' AND step BETWEEN ? AND ? GROUP BY names.id",
        (first, last),
    )
    for row in rows:
        _, what, server = row["name"].split("/", 2)
        breakers.setdefault(what, {})[server] = {key: row[key] for key in ("step", "last", "total")}
    return breakers


def _latencies(
    connection: sqlite3.Connection, of: str, values: tuple[str, int, int]
) -> dict[str, dict[str, float]]:
    """The latency percentiles in seconds, by tool or server (`of`); nearest rank, without interpolation."""
    within = "source = ? AND ifnull(step, 0) BETWEEN ? AND ?"
    counts = connection.execute(
        f"SELECT {of} AS name, count(*) AS num FROM calls WHERE {within} GROUP BY {of}",  # noqa: S608
        values,
    ).fetchall()
    asked = f"SELECT seconds FROM calls WHERE {within} AND {of} = ? ORDER BY seconds LIMIT 1 OFFSET ?"  # noqa: S608
    latencies: dict[str, dict[str, float]] = {}
    for name, num in counts:
        for share in _SHARES:
            place = max(0, math.ceil(num * share / 100) - 1)
            [seconds] = connection.execute(asked, (*values, name, place)).fetchone()
            latencies.setdefault(name, {})[f"p{share}"] = float(seconds)
    return latencies
