"""The tool calls of a run one by one, newest first: arguments, result, and the turn that made the call."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.dashboard.index.episodes import fault_of
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.index.short_text import shortened
from turnwise.dashboard.views.listing import MAX_PAGE
from turnwise.types import Cause, Fault

MAX_TEXT_CHARS = 4_000
"""The most characters of arguments or of a result; the episode has all of them."""

FAILED, RETRIED, INFRA = "", "retried", "infra"
"""The values of `CallFilter.error` that are not the name of a `Cause`."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Conditions of listed calls; an empty `tool` or `server` sets none, an empty `error`: any failure."""

    source: str = "train"
    first: int = 0
    last: int | None = None
    tool: str = ""
    server: str = ""
    error: str = FAILED
    """A cause such as `timeout`, `infra` for all that the model did not cause, or `retried`."""


def calls(index: Index, wanted: CallFilter, *, offset: int = 0, limit: int = 20) -> dict[str, Any]:
    """One page of `rows`, the newest step first, and the `total` number of matching calls."""
    where, values = _condition(wanted)
    with index.reading() as connection:
        # no injection: the SQL is built from our own constants, the user's values are bound
        [total] = connection.execute(f"SELECT count(*) FROM calls WHERE {where}", values).fetchone()  # noqa: S608
        numbers = connection.execute(
            f"SELECT rowid AS number, step FROM calls WHERE {where} "  # noqa: S608
            "ORDER BY step DESC, rowid DESC LIMIT ? OFFSET ?",
            (*values, min(max(limit, 1), MAX_PAGE), max(offset, 0)),
        ).fetchall()
        rows = [dict(connection.execute(_CALL, (row["number"],)).fetchone()) for row in numbers]
    lines: dict[int, Mapping[str, Any]] = {}  # several calls of a page may be of one episode
    for row in rows:
        place = (row.pop("file"), row.pop("offset"), row.pop("length"))
        if row["id"] not in lines:
            lines[row["id"]] = _line(index, *place)
        row["fault"] = fault_of(row["cause"])
        row.update(_texts(lines[row["id"]], row.pop("place")))
    return {"total": total, "rows": rows}


_CALL = (
    "SELECT episodes.id AS id, episodes.file AS file, episodes.offset AS offset, episodes.length AS length, "
    "episodes.source AS source, episodes.step AS step, episodes.task AS task, calls.tool AS tool, "
    "calls.cause AS cause, calls.seconds AS seconds, calls.num_retries AS num_retries, "
    "(SELECT count(*) FROM calls AS other WHERE other.episode = calls.episode AND other.rowid < calls.rowid) "
    "AS place FROM calls JOIN episodes ON episodes.id = calls.episode WHERE calls.rowid = ?"
)
"""One call, where its episode is stored, and its place among the calls of the episode, from 0."""


def _condition(wanted: CallFilter) -> tuple[str, list[Any]]:
    asked: list[tuple[str, Sequence[Any]]] = [
        ("source = ?", [wanted.source]),
        ("ifnull(step, 0) BETWEEN ? AND ?", [wanted.first, 2**62 if wanted.last is None else wanted.last]),
    ]
    asked += [(f"{name} = ?", [value]) for name in ("tool", "server") if (value := getattr(wanted, name))]
    if wanted.error == RETRIED:
        asked.append(("num_retries > 0", []))
    elif wanted.error == Cause.OK:
        asked.append(("cause = 'ok'", []))
    else:
        asked.append(("cause <> 'ok'", []))  # a literal, or SQLite would not use the index calls_failed
    if wanted.error == INFRA:
        others = [cause.value for cause in Cause if cause.fault is not Fault.INFRA]
        asked.append((f"cause NOT IN ({', '.join('?' * len(others))})", others))
    elif wanted.error not in (FAILED, RETRIED, Cause.OK):
        asked.append(("cause = ?", [wanted.error]))
    return " AND ".join(words for words, _ in asked), [value for _, values in asked for value in values]


def _line(index: Index, file: int, offset: int, length: int) -> Mapping[str, Any]:
    try:
        return index.line(file, offset, length)
    except LookupError:  # a resumed run has removed the step meanwhile
        return {}


def _texts(line: Mapping[str, Any], place: int) -> dict[str, Any]:
    """The call's turn, counted from 1, its arguments and what came back; null without its episode."""
    number = 0
    for turn, played in enumerate(line["trajectory"]["turns"] if line else (), start=1):
        for call, result in zip(played["parsed"]["calls"], played["results"], strict=False):
            if number == place:
                arguments = json.dumps(call["arguments"], ensure_ascii=False)
                texts = {"arguments": arguments, "content": str(result["content"])}
                return {
                    "turn": turn,
                    **{name: shortened(text, MAX_TEXT_CHARS) for name, text in texts.items()},
                }
            number += 1
    return {"turn": None, "arguments": None, "content": None}
