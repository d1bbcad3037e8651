"""The list of episodes with questions and answers, in the order of any column."""

from typing import Any

from turnwise.dashboard.index import Index
from turnwise.dashboard.listing import MAX_PAGE, Filter, condition

_TEXTS = {
    "task": "task",
    "question": "question",
    "answer": "answer",
    "expected": "expected",
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


def _orders() -> dict[str, str]:
    found = {"newest": "step DESC, id", "oldest": "step IS NULL, step, id"}
    for sign, direction in (("", "ASC"), ("-", "DESC")):
        found |= {f"{sign}{name}": f"{column} {direction}, id" for name, column in _NUMBERS.items()}
        for name, column in _TEXTS.items():  # episodes without the text come last in both directions
            found[f"{sign}{name}"] = f"coalesce({column}, '') = '', {column} COLLATE NOCASE {direction}, id"
    return found


SORTS = _orders()
"""The page's name for each order of the list, and its ORDER BY clause. A minus reverses the order."""

_COLUMNS = (
    "id, source, step, task, family, difficulty, episode, reward, is_success, stop, fault, num_turns, "
    "num_calls, num_tokens, seconds, question, answer, expected, failed_check"
)


def page(
    index: Index, wanted: Filter, *, sort: str = "newest", offset: int = 0, limit: int = 50
) -> dict[str, Any]:
    """One page of `rows`, and the `total` number of matching episodes. ValueError for an unknown `sort`."""
    if sort not in SORTS:
        raise ValueError(f"sort: no {sort[:40]!r}; there are {', '.join(SORTS)}")
    where, values = condition(wanted)
    with index.reading() as connection:
        # no injection: the SQL is built from our own constants, the user's values are bound
        [total] = connection.execute(f"SELECT count(*) FROM episodes WHERE {where}", values).fetchone()  # noqa: S608
        rows = connection.execute(
            f"SELECT {_COLUMNS} FROM episodes WHERE {where} ORDER BY {SORTS[sort]} LIMIT ? OFFSET ?",  # noqa: S608
            (*values, min(max(limit, 1), MAX_PAGE), max(offset, 0)),
        ).fetchall()
    return {"total": total, "rows": [dict(row) for row in rows]}
