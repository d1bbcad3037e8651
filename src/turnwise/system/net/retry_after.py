"""Parse an HTTP reply's Retry-After header."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_seconds(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait from now. The header holds seconds or an HTTP date; None if it holds neither."""
    text = (header or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text) if len(text) < 20 else None
    try:
        at = parsedate_to_datetime(text)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, OverflowError):  # OverflowError: a field beyond what a date can hold
        return None
