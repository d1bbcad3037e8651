"""Which names measure something: a price can be compared and added up, a code or a year cannot."""

from turnwise.explore.first.query import Measure
from turnwise.explore.first.wording.names import words_of
from turnwise.explore.first.wording.vocabulary import EVENTS
from turnwise.explore.first.wording.word_set import word_set

_NOT_QUANTITIES = word_set("""
    id ids latitude longitude lat lon lng code codes zip zipcode postcode postal phone fax port version index
    number no uuid timestamp epoch unix line offset key hash pid isbn x y z page rank position order
    permission permissions mode chmod inode uid gid flag flags bit bits seed channel build revision null
    notnull nullable primary checksum serial sequence row column coordinate coordinates
""")
_NOT_ADDITIVE = word_set("""
    year month day hour minute week temperature temp rate ratio percentage percent pct score rating
    humidity pressure average mean median probability confidence age factor level gpa priority min max
    minimum maximum per density speed angle degree exchange yield margin share depth limit
""")
_DETAILS = word_set("size bytes lines characters chars length words file")
_FIRST_CLOCK, _LAST_CLOCK = 1_000_000_000, 4_000_000_000
"""Seconds since 1970 from 2001 to 2096: numbers of this size under a name of a time are clocks."""


def is_quantity_name(name: str) -> bool:
    """Return whether numbers of this name measure something, so that they can be compared."""
    words = {word.lower() for word in words_of(name)}
    is_id = name.lower().endswith("id") and len(name) <= 4
    return not is_id and words.isdisjoint(_NOT_QUANTITIES)


def is_additive_name(name: str) -> bool:
    """Return whether a sum of numbers of this name means something."""
    return is_quantity_name(name) and {word.lower() for word in words_of(name)}.isdisjoint(_NOT_ADDITIVE)


def measure_of(name: str) -> Measure:
    """Return what numbers of this name measure."""
    if not is_quantity_name(name):
        return Measure.NONE
    if not is_additive_name(name):
        return Measure.RATE
    is_detail = not _DETAILS.isdisjoint(word.lower() for word in words_of(name))
    return Measure.DETAIL if is_detail else Measure.AMOUNT


def is_clock(name: str, value: object) -> bool:
    """Return whether a value is a time in seconds or milliseconds since 1970, which nobody asks for."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    words = {word.lower() for word in words_of(name)}
    if not words.isdisjoint(("timestamp", "epoch", "unix")):
        return True
    is_time = not words.isdisjoint(("time", "date", "at", "on", "ms", "mtime", "ctime", "atime", *EVENTS))
    return is_time and any(_FIRST_CLOCK <= value / scale <= _LAST_CLOCK for scale in (1, 1_000, 1_000_000))
