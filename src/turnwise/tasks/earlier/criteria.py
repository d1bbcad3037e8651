"""The rubric of an earlier system's row: its question, and those of its criteria that a judge can assess."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnwise.tasks.rows import RowError, shown

LEFT_OUT = (
    *("expected_tools", "must_use_tools", "min_tool_calls"),
    *("reasoning_quality_threshold", "error_recovery_demonstrated"),
)
"""What says how one recorded run of another model went; a judge is shown no reasoning."""

_ASKED = """\
The user asked: {question}
The answer does everything that was asked, and what should be posted was posted.
Every figure and fact in it is in a result of a call, or is computed from such results.
What the tools cannot answer is said to be so, and is not invented."""


def rubric(facts: Mapping[str, Any], question: str) -> str:
    """Return what a judge has to assess, one criterion per line."""
    criteria = facts.get("success_criteria")
    if not isinstance(criteria, Mapping | str | Sequence | None):
        raise RowError("success_criteria", f"expected text, a list or an object, got {shown(criteria)}")
    lines = list(_named(criteria)) if isinstance(criteria, Mapping) else list(_listed(criteria))
    for key in ("expected_outcome", "validation_rules"):  # some rows keep these outside the criteria
        lines += _named({key: facts.get(key)})
    return "\n".join(dict.fromkeys([_ASKED.format(question=question), *lines]))


def _named(criteria: Mapping[str, Any]) -> Iterator[str]:
    for key, value in criteria.items():
        if key in LEFT_OUT or value in (None, "", [], {}):
            continue
        if key == "validation_rules":
            yield from _listed(value)
        else:
            yield f"{key.replace('_', ' ').capitalize()}: {_said(value)}"


def _listed(value: Any) -> Iterator[str]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        yield from (_said(item) for item in value)
    elif value not in (None, ""):
        yield _said(value)


def _said(value: Any) -> str:
    """Return a value as readable text: "yes" for True, lists joined by commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{key.replace('_', ' ')}: {_said(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_said(item) for item in value)
    return value.strip() if isinstance(value, str) else json.dumps(value)
