"""The market's tables and word lists, which are data files next to this one."""

import csv
import functools
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of a table, such as companies.psv, by the names in its first line."""
    with files("turnwise.worlds.market.data").joinpath(name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="|", quoting=csv.QUOTE_NONE))


@functools.cache
def _lists() -> Mapping[str, Any]:
    text = files("turnwise.worlds.market.data").joinpath("words.json").read_text(encoding="utf-8")
    lists: Mapping[str, Any] = json.loads(text)
    return lists


def words(name: str) -> Sequence[str]:
    """Return a list of words.json; its order matters, because worlds are drawn from it by a seed."""
    return tuple(_lists()[name])


def table_of(name: str) -> Mapping[str, Any]:
    """Return a table of words.json: the cities of a country, or the topics of channels."""
    table: Mapping[str, Any] = _lists()[name]
    return table
