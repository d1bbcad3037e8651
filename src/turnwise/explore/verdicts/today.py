"""Answers that are true today only: those that name the current date."""

import datetime
import re

_TIMESTAMP = re.compile(r"(?<![\d.])\d{10}(?:\d{3})?(?!\d)")
_UNIT = r"(?:second|minute|hour|day|week|month|year)s?"
_FROM_NOW = re.compile(rf"\b{_UNIT} (?:ago|from now)\b|^\s*in (?:an?|\d+) {_UNIT}\s*$", re.I | re.M)
DEPENDS = "its answers depend on the day"


def names_today(text: str, given: str) -> bool:
    """Return whether a text names the current date in any time zone, and what was given does not.

    So does "2 years ago". Then its other values may depend on it too: time zones differ by more in summer.
    """
    now = datetime.datetime.now(datetime.UTC)
    if _FROM_NOW.search(text):
        return True
    days = [now + datetime.timedelta(days=offset) for offset in (-1, 0, 1)]
    found, known = text.lower(), given.lower()
    if any(_is_now(number, now) for number in _TIMESTAMP.findall(text) if number not in given):
        return True
    spellings = (spelling.lower() for day in days for spelling in _spellings(day))
    return any(spelling in found and spelling not in known for spelling in spellings)


def _is_now(number: str, now: datetime.datetime) -> bool:
    """Return whether digits are the seconds or milliseconds of a moment within two days."""
    seconds = int(number[:10])
    return abs(seconds - now.timestamp()) < 2 * 86_400


def _spellings(day: datetime.datetime) -> tuple[str, ...]:
    return (
        f"{day:%Y-%m-%d}",
        f"{day:%Y/%m/%d}",
        f"{day:%d/%m/%Y}",
        f"{day:%m/%d/%Y}",
        f"{day:%d.%m.%Y}",
        f"{day:%b} {day.day:02d} {day.year}",
        f"{day:%b} {day.day}, {day.year}",
        f"{day:%B} {day.day}, {day.year}",
        f"{day.day} {day:%b} {day.year}",
        f"{day.day} {day:%B} {day.year}",
    )
