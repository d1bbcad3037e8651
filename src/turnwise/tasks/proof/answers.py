"""Answers to numbers that were looked up or computed, with their tolerances, and reading of results."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.types import Answer, Matcher

NUMBER = "Answer with the number only."
TWO_DECIMALS = "Answer with the number only, rounded to two decimals."


def looked_up(value: float, *, decimals: int = 2, unit: str = "") -> Answer:
    """Return the answer for a number copied from a tool: within half a unit of its last decimal."""
    return Answer(value, Matcher.NUMERIC, _tolerance(value, 0.5 * 10**-decimals), unit)


def computed(value: float, *, decimals: int = 2, unit: str = "") -> Answer:
    """Return the answer for a rounded result of a calculation: the last decimal may be off by one."""
    return Answer(value, Matcher.NUMERIC, _tolerance(value, 1.05 * 10**-decimals), unit)


def _tolerance(value: float, distance: float) -> float:
    """Convert an absolute distance to `Answer.tolerance`: relative to the value, absolute within ±1."""
    return float(f"{distance / max(1.0, abs(value)):.3g}")


def is_clear(value: float) -> bool:
    """Return whether the value rounds to the same two decimals however it is computed, and not to zero."""
    return abs(abs(value) * 100 % 1 - 0.5) > 0.02 and abs(value) >= 0.01


def plain(value: float) -> str:
    """Return a number as JSON text."""
    return json.dumps(value)


def row_where(rows: Sequence[Mapping[str, Any]], key: str, value: object) -> Mapping[str, Any]:
    """Return the first row with this value; LookupError if there is none."""
    for row in rows:
        if row[key] == value:
            return row
    raise LookupError(f"no row has {key} {value!r}")


def found(pattern: str, text: str) -> str:
    """Return the first group of the first match; LookupError if nothing matches."""
    match = re.search(pattern, text)
    if match is None:
        raise LookupError(f"nothing in the text fits {pattern!r}")
    return match[1]


def printed(result: Mapping[str, Any]) -> str:
    """Return what the Python code printed."""
    text: str = result["stdout"]
    return text.strip()
