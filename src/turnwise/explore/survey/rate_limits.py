"""What servers say when they are called too often."""

import re

_MAX_CHARS = 2_000
"""A longer text is an answer that happens to mention rate limits."""
_LIMITED = re.compile(
    r"\brate[ _-]?limit|\btoo many requests\b|\b429\b|\bquota\b.{0,40}\bexceeded\b|\bthrottl(?:ed|ing)\b",
    re.IGNORECASE,
)
_SECONDS = re.compile(
    r"(?:retry|try)[ _-]?(?:again )?(?:after|in)\D{0,12}?(\d{1,6}(?:\.\d{1,3})?)", re.IGNORECASE
)
_USUAL_REST_SECONDS = 2.0


def asked_rest(error: str) -> float | None:
    """Return the seconds for which an error asks for no more calls; None if it is not about their rate."""
    if len(error) > _MAX_CHARS or not _LIMITED.search(error):
        return None
    stated = _SECONDS.search(error)
    return float(stated[1]) if stated else _USUAL_REST_SECONDS
