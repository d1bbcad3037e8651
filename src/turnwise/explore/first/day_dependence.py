"""Answers that are true today only: those that name the current date, or count from it."""

import datetime
import re

from turnwise.explore.first.observation import Observation

_FROM_NOW = re.compile(
    r"\b(?:an?|\d{1,6}|few) (?:second|minute|hour|day|week|month|year)s? (?:ago|from now)\b"
    r"|\bin (?:an?|\d{1,6}|a few) (?:second|minute|hour|day|week|month|year)s?$",
    re.IGNORECASE,
)


class Today:
    """The day of an exploration, in every time zone and in the usual spellings."""

    def __init__(self, now: datetime.datetime) -> None:
        days = [now + datetime.timedelta(days=offset) for offset in (-1, 0, 1)]
        self._weekdays = {f"{day:%A}".lower() for day in days}
        self._spellings = tuple(
            dict.fromkeys(spelling.lower() for day in days for spelling in _spellings(day))
        )

    def is_in(self, observation: Observation) -> bool:
        """Return whether an answer depends on the day: it states today's date or weekday, the call does not.

        So does one that is nothing but a distance from now, such as "a month ago".

        Then fields without a date may depend on it too: two time zones differ by more in summer.
        """
        document = observation.document
        texts = [str(field.value).lower() for field in document.fields]
        if any(text in self._weekdays or _FROM_NOW.fullmatch(text.strip(" .!")) for text in texts):
            return True
        values = [field.value for field in document.fields]
        values += [value for table in document.tables for row in table.rows for value in row.values()]
        return self.is_named("\n".join(map(str, values)), str(observation.plain_arguments))

    def is_named(self, text: str, given: str) -> bool:
        """Return whether a text names today's date, and what was given does not."""
        found, known = text.lower(), given.lower()
        return any(spelling in found and spelling not in known for spelling in self._spellings)


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
