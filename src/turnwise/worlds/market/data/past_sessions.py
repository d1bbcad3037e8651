"""The trading days from 2018 to June 2024, by the exchange's rules; only real listings have bars then."""

import functools
from collections.abc import Iterator, Sequence
from datetime import date, timedelta, timezone

from turnwise.worlds.market.data.sessions import SESSIONS

FIRST_YEAR = 2018

MOURNING = date(2018, 12, 5)
"""The exchanges closed for a state funeral."""


@functools.cache
def past_sessions() -> Sequence[date]:
    """Return every trading day from `FIRST_YEAR` to before the first of `SESSIONS`, oldest first."""
    first, last = date(FIRST_YEAR, 1, 1), SESSIONS[0]
    closed = {day for year in range(FIRST_YEAR, last.year + 1) for day in holidays(year)} | {MOURNING}
    days = (first + timedelta(days=offset) for offset in range((last - first).days))
    return tuple(day for day in days if day.weekday() < 5 and day not in closed)


def holidays(year: int) -> Iterator[date]:
    """Yield the exchange's holidays of a year, on the weekday they are observed."""
    new_year = date(year, 1, 1)
    # A New Year's Day on a Saturday is not observed: Friday belongs to the old year's accounts.
    if new_year.weekday() != 5:
        yield _observed(new_year)
    yield _nth_weekday(year, 1, 0, 3)
    yield _nth_weekday(year, 2, 0, 3)
    yield _easter(year) - timedelta(days=2)
    yield _nth_weekday(year, 6, 0, 1) - timedelta(days=7)
    if year >= 2022:
        yield _observed(date(year, 6, 19))
    yield _observed(date(year, 7, 4))
    yield _nth_weekday(year, 9, 0, 1)
    yield _nth_weekday(year, 11, 3, 4)
    yield _observed(date(year, 12, 25))


def new_york_on(day: date) -> timezone:
    """Return New York's UTC offset on a day: DST runs from March's second Sunday to November's first."""
    is_summer = _nth_weekday(day.year, 3, 6, 2) <= day < _nth_weekday(day.year, 11, 6, 1)
    return timezone(timedelta(hours=-4 if is_summer else -5))


def _observed(day: date) -> date:
    return day + timedelta(days={5: -1, 6: 1}.get(day.weekday(), 0))


def _nth_weekday(year: int, month: int, weekday: int, count: int) -> date:
    first = date(year, month, 1)
    return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (count - 1))


def _easter(year: int) -> date:
    """Return Easter Sunday by Gauss's rule; its constants hold from 1982 to 2099, except in 2049 and 2076."""
    moon = (19 * (year % 19) + 24) % 30
    week = (2 * (year % 4) + 4 * (year % 7) + 6 * moon + 5) % 7
    return date(year, 3, 22) + timedelta(days=moon + week)
