"""The list of episodes with questions and answers, in the order of any column."""

import sqlite3
from dataclasses import asdict, replace
from typing import Any

from turnwise.dashboard.index.index import Index
from turnwise.dashboard.index.search_index import excerpts, find, state
from turnwise.dashboard.views.listing import MAX_PAGE, Filter, condition
from turnwise.dashboard.views.token_texts import Pieces

_TEXTS = {
    "task": "task",
    "question": "question",
    "failed": "failed_check",
    "family": "family",
    "stop": "stop",
    "fault": "nullif(fault, 'none')",
}
_NUMBERS = {
    "reward": "reward",
    "turns": "num_turns",
    "calls": "num_calls",
    "tokens": "num_tokens",
    "seconds": "seconds",
}
_NUMBERS_OR_TEXTS = ("answer", "expected")


def _orders() -> dict[str, str]:
    orders = {"newest": "step DESC, id", "oldest": "step IS NULL, step, id"}
    for sign, direction in (("", "ASC"), ("-", "DESC")):
        orders |= {f"{sign}{name}": f"{column} {direction}, id" for name, column in _NUMBERS.items()}
        for name, column in _TEXTS.items():  # episodes without the text come last in both directions
            orders[f"{sign}{name}"] = f"coalesce({column}, '') = '', {column} COLLATE NOCASE {direction}, id"
        for name in _NUMBERS_OR_TEXTS:  # in both directions numbers come first, then texts
            order = f"{name} = '', {name}_number IS NULL, {name}_number {direction}, {name} COLLATE NOCASE"
            orders[f"{sign}{name}"] = f"{order} {direction}, id"
    return orders


SORTS = _orders()
"""The page's name for each order of the list, and its ORDER BY clause. A minus reverses the order."""

_COLUMNS = (
    "id, source, step, task, family, difficulty, episode, reward, is_success, stop, fault, num_turns, "
    "num_calls, num_tokens, seconds, question, answer, expected, answer_number, expected_number, "
    "failed_check, messages"
)


def page(
    index: Index,
    wanted: Filter,
    *,
    sort: str = "newest",
    offset: int = 0,
    limit: int = 50,
    pieces: Pieces | None = None,
) -> dict[str, Any]:
    """One page of `rows`, and the `total` number of matching episodes. ValueError for an unknown `sort`.

    With a search, every row has an `excerpt`, and `search` says how many episodes have been searched.
    """
    if sort not in SORTS:
        raise ValueError(f"sort: no {sort[:40]!r}; there are {', '.join(SORTS)}")
    searched = wanted.search
    if not index.can_search:
        wanted = replace(wanted, search="")
    where, values = condition(wanted)
    with index.reading() as connection:
        if wanted.search:
            find(connection, wanted.search)
        # no injection: the SQL is built from our own constants, the user's values are bound
        [total] = connection.execute(f"SELECT count(*) FROM episodes WHERE {where}", values).fetchone()  # noqa: S608
        # ids first: sorting whole rows would copy the texts of all episodes
        chosen = f"SELECT id FROM episodes WHERE {where} ORDER BY {SORTS[sort]} LIMIT ? OFFSET ?"  # noqa: S608
        rows = connection.execute(
            f"SELECT {_COLUMNS}, file, offset, length FROM episodes WHERE id IN ({chosen}) "  # noqa: S608
            f"ORDER BY {SORTS[sort]}",
            (*values, min(max(limit, 1), MAX_PAGE), max(offset, 0)),
        ).fetchall()
        search = asdict(state(index, connection, searched)) if searched else None
        excerpted = (
            excerpts(index, connection, rows, searched, pieces) if wanted.search else [None] * len(rows)
        )
    shown = [_shown(row) | {"excerpt": each} for row, each in zip(rows, excerpted, strict=True)]
    return {"total": total, "rows": shown, "search": search}


def _shown(row: sqlite3.Row) -> dict[str, Any]:
    """The row without the place of its line."""
    return {key: row[key] for key in row.keys() if key not in ("file", "offset", "length")}  # noqa: SIM118 (a Row iterates over values)
