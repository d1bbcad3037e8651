"""Success criteria of earlier systems as a rubric: plain lines that a judge can read."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnwise.tasks.rows import RowError, shown

VERIFIED = ("expected_tools", "must_use_tools", "min_tool_calls")
"""Criteria that become fields of the truth, so that no judge has to assess them."""


def rubric(facts: Mapping[str, Any]) -> str:
    """Return the success criteria of a ground truth, one per line; empty if it has none."""
    criteria = facts.get("success_criteria")
    if not isinstance(criteria, Mapping | str | Sequence | None):
        raise RowError("success_criteria", f"expected text, a list or an object, got {shown(criteria)}")
    lines = list(_named(criteria)) if isinstance(criteria, Mapping) else list(_listed(criteria))
    for key in ("expected_outcome", "validation_rules"):  # some rows keep these outside the criteria
        lines += _named({key: facts.get(key)})
    return "\n".join(dict.fromkeys(lines))


def _named(criteria: Mapping[str, Any]) -> Iterator[str]:
    for key, value in criteria.items():
        if key in VERIFIED or value in (None, "", [], {}):
            continue
        match key:
            case "reasoning_quality_threshold":
                yield f"Reasoning quality at least {_said(value)} of 100"
            case "error_recovery_demonstrated":
                # The flag says only that the recorded run met an error, so the criterion is conditional.
                if value is True:
                    yield "If a tool call fails, the agent recovers from it"
            case "validation_rules":
                yield from _listed(value)
            case _:
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
