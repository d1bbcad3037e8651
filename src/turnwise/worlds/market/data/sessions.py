"""The frozen clock of the embedded world, its trading sessions and the market's status."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone

NEW_YORK = timezone(timedelta(hours=-4))
"""New York in DST. Everything that uses it (clock, news, Slack messages) is dated after 2026-03-08."""

CLOCK = datetime(2026, 6, 30, 16, 30, tzinfo=NEW_YORK)
"""The current time, which never changes: half an hour after the close of the last session."""

CLOSE = datetime(2026, 6, 30, 16, 0, tzinfo=NEW_YORK)

HOLIDAYS = (
    *(date(2024, 7, 4), date(2024, 9, 2), date(2024, 11, 28), date(2024, 12, 25)),
    *(date(2025, 1, 1), date(2025, 1, 20), date(2025, 2, 17), date(2025, 4, 18), date(2025, 5, 26)),
    *(date(2025, 6, 19), date(2025, 7, 4), date(2025, 9, 1), date(2025, 11, 27), date(2025, 12, 25)),
    *(date(2026, 1, 1), date(2026, 1, 19), date(2026, 2, 16), date(2026, 4, 3), date(2026, 5, 25)),
    date(2026, 6, 19),
)


def _weekdays(first: date, last: date) -> list[date]:
    days = (first + timedelta(days=offset) for offset in range((last - first).days + 1))
    return [day for day in days if day.weekday() < 5]


SESSIONS: Sequence[date] = tuple(
    day for day in _weekdays(date(2024, 7, 1), CLOCK.date()) if day not in HOLIDAYS
)
"""Two years of trading days, oldest first. Every session runs 09:30 to 16:00; there are no half days."""

HOURLY_SESSIONS = SESSIONS[-60:]
"""The sessions that have hourly bars."""

MINUTE_SESSIONS = SESSIONS[-20:]
"""The sessions that have minute bars."""

LAST_SESSION = SESSIONS[-1]
PREVIOUS_SESSION = SESSIONS[-2]
"""The session before the last one. Its close is what every tool calls the previous close."""


def session_on_or_after(day: date) -> date:
    """Return the first session on or after a day."""
    return SESSIONS[bisect.bisect_left(SESSIONS, day)]


@dataclass(frozen=True, slots=True)
class MarketStatus:
    """Whether the exchanges trade at the frozen clock."""

    market: str
    server_time: datetime
    exchanges: dict[str, str]
    is_early_hours: bool
    is_after_hours: bool


def market_status() -> MarketStatus:
    """Return the status at 16:30: the regular session is over, after-hours trading runs, OTC is closed."""
    return MarketStatus(
        market="extended-hours",
        server_time=CLOCK,
        exchanges={"nasdaq": "extended-hours", "nyse": "extended-hours", "otc": "closed"},
        is_early_hours=False,
        is_after_hours=True,
    )
