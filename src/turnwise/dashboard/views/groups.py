"""The list of groups: all tries at one task in one step or evaluation, which is what training learns from."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from turnwise.dashboard.headings import KINDS, of_groups
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.index.search_index import find, state
from turnwise.dashboard.views.listing import MAX_PAGE, Filter, condition

_KIND = (
    "CASE WHEN sum(is_success) = count(is_success) AND count(is_success) > 0 THEN 'all' "
    "WHEN sum(is_success) > 0 THEN 'some' ELSE 'none' END"
)
_MEMBER = "id, is_success, answer, fault, failed_check, stop, num_turns, num_tokens, reward"


def groups(
    index: Index, wanted: Filter, *, kind: str = "", offset: int = 0, limit: int = 100
) -> dict[str, Any]:
    """One page of `rows`, the newest step and its divided groups first; one try that fits is enough.

    `total` and `num_episodes` count what fits. ValueError for an unknown `kind`.
    """
    if kind and kind not in KINDS:
        raise ValueError(f"kind: no {kind[:40]!r}; there are {', '.join(KINDS)}")
    searched = wanted.search
    if not index.can_search:
        wanted = replace(wanted, search="")
    where, values = condition(wanted)
    fits = "1" if where == "1" else f"(file, task) IN (SELECT file, task FROM episodes WHERE {where})"  # noqa: S608
    whole = (
        f"SELECT file, task, min(id) AS id, min(source) AS source, min(step) AS step, count(*) AS num, "  # noqa: S608
        f"sum(is_success) AS won, {_KIND} AS kind FROM episodes WHERE {fits} GROUP BY file, task"
    )
    chosen = f"SELECT * FROM ({whole}) WHERE ? IN ('', kind)"  # noqa: S608
    with index.reading() as connection:
        if wanted.search:
            find(connection, wanted.search)
        total, num = connection.execute(
            f"SELECT count(*), coalesce(sum(num), 0) FROM ({chosen})",  # noqa: S608
            (*values, kind),
        ).fetchone()
        rows = connection.execute(
            f"{chosen} ORDER BY step DESC, kind <> 'some', kind, id LIMIT ? OFFSET ?",
            (*values, kind, min(max(limit, 1), MAX_PAGE), max(offset, 0)),
        ).fetchall()
        shown = [_row(connection, dict(row)) for row in rows]
        search = asdict(state(index, connection, searched)) if searched else None
    return {"total": total, "num_episodes": num, "rows": shown, "search": search}


def kinds(index: Index) -> dict[str, Any]:
    """The groups of each training step by kind, and the sentence on them."""
    with index.reading() as connection:
        rows = connection.execute(
            "SELECT step, sum(kind = 'all') AS 'all', sum(kind = 'some') AS some, "  # noqa: S608
            "sum(kind = 'none') AS none "
            f"FROM (SELECT step, {_KIND} AS kind FROM episodes WHERE source = 'train' GROUP BY step, task) "
            "GROUP BY step ORDER BY step"
        ).fetchall()
    steps = [dict(row) for row in rows]
    return {"heading": of_groups(steps), "steps": steps}


def _row(connection: Any, group: dict[str, Any]) -> dict[str, Any]:
    members: Sequence[Any] = connection.execute(
        f"SELECT {_MEMBER} FROM episodes WHERE file = ? AND task = ? ORDER BY id",  # noqa: S608
        (group.pop("file"), group["task"]),
    ).fetchall()
    words = connection.execute(
        "SELECT question, expected, family, difficulty, messages FROM episodes WHERE id = ?", (group["id"],)
    ).fetchone()
    return {**group, **dict(words), "members": [dict(member) for member in members]}
