"""The alarms of a run: one by one, and one group for each kind with its advice."""

import re
from typing import Any

from turnwise.dashboard.headings import of_health
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.runs import ListedRun
from turnwise.dashboard.views.run_row import RunRow
from turnwise.dashboard.views.series import alarms, last_step
from turnwise.run.health.health import CHECKS

MAX_GROUPS = 50
_SHARE = re.compile(r"[/_](rate|fraction|alignment)$")
"""The metrics that are shares from 0 to 1; the page shows them in percent."""

_KEY = re.compile(r"\b[a-z_]+(?:\.[a-z_]+)+\b")


def listed_alarms(
    run: ListedRun, *, first: int = 0, last: int | None = None, axis: str = "step"
) -> dict[str, Any]:
    """The newest alarms, and `groups`: one for each kind of alarm, those that halted the run first."""
    index = run.index
    listed = alarms(index, first=first, last=last, axis=axis)
    counts = sorted(listed.pop("counts"), key=lambda count: (count["level"] != "halt", -count["last"]))
    row = run.row()
    groups = [_group(index, count, row) for count in counts[:MAX_GROUPS]]
    last_logged, facts = last_step(index), run.facts
    return {
        **listed,
        "heading": of_health(facts.state, facts.reason, groups, last_logged),
        "groups": groups,
        "num_groups": len(counts),
        "last_step": last_logged,
    }


def _group(index: Index, count: dict[str, Any], row: RunRow) -> dict[str, Any]:
    """The counts of one kind of alarm, the values of its last one, and what it means and advises."""
    with index.reading() as connection:
        newest = connection.execute(
            "SELECT value, threshold, message FROM alarms WHERE name = ? AND level = ? AND step = ? LIMIT 1",
            (count["name"], count["level"], count["last"]),
        ).fetchone()
    said, _, advice = str(newest["message"]).partition(" Try: ")
    check = CHECKS.get(count["name"])
    keys = [key for key in dict.fromkeys(_KEY.findall(advice)) if key in row.recipe]
    return {
        **count,
        "value": newest["value"],
        "threshold": newest["threshold"],
        "said": said,
        "metric": check.metric if check else "",
        "is_share": bool(check and _SHARE.search(check.metric)),
        "meaning": check.meaning if check else "",
        "remedies": [words for words in advice.removesuffix(".").split("; ") if words],
        "keys": row.values(keys),
    }
