"""Values that are true today only: dates and weekdays of now, and ages such as "2 days ago"."""

import datetime
import re

from turnwise.explore.document import Document, Scalar, Table

_RELATIVE = re.compile(
    r"\b(?:ago|today|yesterday|tomorrow|just now|in \d+ (?:seconds?|minutes?|hours?|days?))\b", re.I
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_EPOCH_SECONDS = 3 * 86_400
"""How far a Unix time may be from now to count as now."""
_MILLISECONDS = 1e11
"""A larger number is a time in milliseconds: in seconds it would be the year 5138."""


class Today:
    """The day of an exploration, in every time zone and in the usual spellings."""

    def __init__(self, now: datetime.datetime) -> None:
        self._now = now
        days = [now + datetime.timedelta(days=offset) for offset in (-1, 0, 1)]
        self._spellings = tuple(
            dict.fromkeys(spelling.lower() for day in days for spelling in _spellings(day))
        )
        self._weekdays = {_DAYS[day.weekday()].lower() for day in days}

    def is_in(self, value: Scalar) -> bool:
        """Return whether a value would be another one on another day."""
        if isinstance(value, bool):
            return False
        if isinstance(value, int | float):
            seconds = value / 1000 if value > _MILLISECONDS else value
            return abs(seconds - self._now.timestamp()) < _EPOCH_SECONDS
        text = value.lower()
        if text.strip(" .") in self._weekdays:
            return True
        return any(spelling in text for spelling in self._spellings) or _RELATIVE.search(text) is not None

    def without(self, document: Document) -> Document:
        """Return the document without the fields and columns that depend on the day."""
        fields = tuple(field for field in document.fields if not self.is_in(field.value))
        tables = tuple(self._without_columns(table) for table in document.tables)
        if len(fields) == len(document.fields) and tables == document.tables:
            return document
        return Document(
            document.text, fields, tuple(table for table in tables if table.columns), document.is_cut
        )

    def _without_columns(self, table: Table) -> Table:
        columns = tuple(
            column
            for column in table.columns
            if not any(column in row and self.is_in(row[column]) for row in table.rows)
        )
        if columns == table.columns:
            return table
        rows = tuple({key: value for key, value in row.items() if key in columns} for row in table.rows)
        return Table(table.path, columns, rows)


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
