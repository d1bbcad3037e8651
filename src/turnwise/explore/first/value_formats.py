"""Recognise formats of values (paths, URLs, dates, time zones, …) and the format that a parameter wants."""

import re
from functools import lru_cache

from turnwise.explore.first.name_words import name_words
from turnwise.explore.first.sql_queries import wants_sql
from turnwise.explore.survey.parameters import Kind, Parameter

MAX_PROSE_CHARS = 4_000
MAX_FORMAT_CHARS = 500
"""A longer text has no format: it is prose."""

TIME_ZONES = (
    *("Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC", "Europe/London", "Australia/Sydney"),
    *("America/Los_Angeles", "Asia/Kolkata", "America/Sao_Paulo", "Africa/Cairo", "Asia/Singapore"),
)
CURRENCIES = ("USD", "EUR", "GBP", "JPY", "CHF", "CAD", "AUD", "SEK")

_ZONE_AREAS = "Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc"
_PATTERNS = {
    "url": re.compile(r"[a-z][a-z0-9+.-]{1,20}://\S+", re.IGNORECASE),
    "datetime": re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "time": re.compile(r"\d\d?:\d\d(?::\d\d)?"),
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5}"),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    "hash": re.compile(
        r"(?=[0-9a-f]{0,11}[a-f])(?=[0-9a-f]{0,11}\d)(?:[0-9a-f]{7,12}|[0-9a-f]{40}|[0-9a-f]{64})"
    ),
    "timezone": re.compile(rf"(?:{_ZONE_AREAS})/[A-Za-z_]{{2,40}}(?:/[A-Za-z_]{{2,40}})?|UTC|GMT"),
    "path": re.compile(
        r"(?:~|\.{1,2})?/[^\n\x00]{0,400}|[\w.@][\w .@+-]{0,79}(?:/[\w.@][\w .@+-]{0,79}){1,10}/?"
        r"|[A-Z]:\\[^\n]{1,400}"
    ),
    "file": re.compile(r"[\w@+-][\w .@+()-]{0,100}\.[A-Za-z][A-Za-z0-9]{0,7}"),
    "color": re.compile(r"#[0-9a-fA-F]{6}"),
    "cell": re.compile(r"[A-Z]{1,3}[1-9]\d{0,5}"),
    "cells": re.compile(r"[A-Z]{1,3}[1-9]\d{0,5}:[A-Z]{1,3}[1-9]\d{0,5}"),
}
_WANTED_BY_FORMAT = {
    "uri": "url",
    "url": "url",
    "uri-reference": "url",
    "date": "date",
    "date-time": "datetime",
    "time": "time",
    "email": "email",
    "uuid": "uuid",
    "path": "path",
}
_WANTED_BY_WORD = {
    "url": "url",
    "uri": "url",
    "link": "url",
    "email": "email",
    "uuid": "uuid",
    "timezone": "timezone",
    "currency": "currency",
    "commit": "hash",
    "revision": "hash",
    "sha": "hash",
    "hash": "hash",
    "ref": "hash",
    "date": "date",
    "color": "color",
    "colour": "color",
    "path": "path",
    "file": "path",
    "folder": "path",
    "glob": "pattern",
    "cell": "cell",
    "range": "cells",
}
SIMILAR_FORMATS = {"path": ("file",), "date": ("datetime",), "datetime": ("date",)}
"""Formats that servers often accept in place of another one."""

_FORMAT_EXAMPLES = (
    (
        re.compile(r"YYYY-MM-DD[T ]HH:MM(?::SS)?|ISO[ -]?8601|RFC ?3339|isoformat", re.IGNORECASE),
        ("2024-03-15T10:30:00", "2023-11-02T08:00:00"),
    ),
    (re.compile(r"\bYYYY-MM-DD\b|%Y-%m-%d\b", re.IGNORECASE), ("2024-03-15", "2023-11-02")),
    (re.compile(r"\bDD[./]MM[./]YYYY\b", re.IGNORECASE), ("15/03/2024",)),
    (re.compile(r"\bMM/DD/YYYY\b", re.IGNORECASE), ("03/15/2024",)),
    (re.compile(r"\bYYYY-MM\b(?!-)", re.IGNORECASE), ("2024-03",)),
    (re.compile(r"\bHH:MM:SS\b", re.IGNORECASE), ("14:30:00", "09:15:00")),
    (re.compile(r"\bHH:MM\b(?!:)|\b24-hour format", re.IGNORECASE), ("14:30", "09:15")),
)
_PLAIN_ENDINGS = frozenset(("name", "type", "id", "size", "format", "count", "limit", "key"))
"""Last words of names that take plain texts: a `file_type` is no path."""
_FORMULA_WORDS = frozenset(("expression", "formula", "equation", "calculation"))
_PYTHON = re.compile(r"python", re.IGNORECASE)
_JSON = re.compile(
    r"\bJSON (?:text|string|array|list|object|data|encoded)\b"
    r"|\b(?:as|in|valid) JSON\b(?! (?:content|files?|documents?))",
    re.IGNORECASE,
)
JSON_EXAMPLES = (
    '[{"name": "ann", "value": 12}, {"name": "bob", "value": 30}]',
    "[4, 8, 15, 16]",
    '{"value": 12}',
)
_IANA = re.compile(r"\b(?:iana|time ?zone)\b", re.IGNORECASE)


@lru_cache(maxsize=20_000)
def format_of(text: str) -> str:
    """Return the format of a text: `url`, `date`, `path`, …; empty if it has none."""
    if len(text) > MAX_FORMAT_CHARS:
        return ""
    if text in CURRENCIES:
        return "currency"
    return next((name for name, pattern in _PATTERNS.items() if pattern.fullmatch(text)), "")


def wanted_format(parameter: Parameter) -> str:
    """Return the format of the texts that a parameter takes, from its schema, name and description."""
    if parameter.kind not in (Kind.TEXT, Kind.ANY) or parameter.enum:
        return ""
    return _WANTED_BY_FORMAT.get(parameter.format) or _wanted_by_name(
        parameter.name, parameter.description[:300]
    )


@lru_cache(maxsize=5_000)
def _wanted_by_name(name: str, description: str) -> str:
    words = name_words(name)
    stated = format_examples(description)
    if wants_sql(name, description):
        wanted = "sql"
    elif _FORMULA_WORDS.intersection(words):
        wanted = "formula"
    elif words[-1:] == ("code",) and _PYTHON.search(f"{name} {description}"):
        wanted = "python"
    elif _JSON.search(description):
        wanted = "json"
    elif words[-2:] == ("time", "zone") or _IANA.search(description):
        wanted = "timezone"
    elif stated:
        wanted = format_of(stated[0])
    elif len(words) > 1 and words[-1] in _PLAIN_ENDINGS:
        wanted = ""
    elif words[-1:] in (("time",), ("pattern",)):
        wanted = words[-1]
    else:
        wanted = next((_WANTED_BY_WORD[word] for word in reversed(words) if word in _WANTED_BY_WORD), "")
    return wanted


def format_place(prose: str) -> int:
    """Return where a text states a format of dates or times, such as YYYY-MM-DD; -1 if it states none."""
    found = next(filter(None, (pattern.search(prose) for pattern, _ in _FORMAT_EXAMPLES)), None)
    return found.start() if found else -1


@lru_cache(maxsize=5_000)
def format_examples(prose: str) -> tuple[str, ...]:
    """Return values in the format of dates or times that a text states; none if it states no format."""
    prose = prose[:MAX_PROSE_CHARS]
    return next((examples for pattern, examples in _FORMAT_EXAMPLES if pattern.search(prose)), ())
