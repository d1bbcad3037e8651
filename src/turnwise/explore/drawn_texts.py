"""Texts drawn for changes: distinctive enough to be found again, plain enough to be asked for."""

import random
from collections.abc import Mapping
from typing import Any

from turnwise.explore.tool_verbs import words_of
from turnwise.explore.values import Source, Value
from turnwise.explore.wording.word_set import word_set
from turnwise.types import Tool

_ADJECTIVES = (
    "amber", "quiet", "northern", "silver", "early", "hollow", "gentle", "crimson", "distant", "frozen",
    "golden", "narrow", "patient", "rapid", "sunny", "velvet", "windy", "bright", "coastal", "dusty",
)  # fmt: skip
_NOUNS = (
    "harbour", "lantern", "orchard", "compass", "meadow", "anchor", "bridge", "canyon", "ember", "falcon",
    "garden", "island", "kettle", "ladder", "marble", "needle", "pebble", "quarry", "ribbon", "saddle",
)  # fmt: skip
_SENTENCES = (
    "The {} opens at nine", "Ask Maria about the {}", "We moved the {} to Friday", "The {} needs new paint",
    "Please count the {} twice", "The {} is due next week", "Order one more for the {}", "The {} is open",
)  # fmt: skip
_LONG = word_set("""
    content contents text body message description note notes summary comment observation observations
""")
_NAMES = word_set("name title subject heading label key")
_CREATING = word_set("create add write new insert save store register make")
_TARGETS = word_set("destination target dest new to")
_PATHS = word_set("""
    path file filename filepath
""")


class DrawnTexts:
    """Names and sentences, none twice."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._used: set[str] = set()

    def name(self) -> str:
        """Return a name such as "amber lantern"."""
        while True:
            drawn = f"{self._pick(_ADJECTIVES)} {self._pick(_NOUNS)}"
            if len(self._used) > len(_ADJECTIVES) * len(_NOUNS) // 2:
                drawn = f"{drawn} {int(self._chance.random() * 900) + 100}"
            if drawn not in self._used:
                self._used.add(drawn)
                return drawn

    def sentence(self) -> str:
        """Return a sentence about a new name, without a full stop."""
        return self._pick(_SENTENCES).format(self.name())

    def _pick(self, items: tuple[str, ...]) -> str:
        return items[int(self._chance.random() * len(items))]


def marked(tool: Tool, proposed: Mapping[str, Value], texts: DrawnTexts) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments with new texts where the change needs some, and the new texts.

    Contents are always new. Names and paths are new if the tool creates something; a tool that edits or
    appends needs those of something that exists.
    """
    markers: list[str] = []
    is_creating = bool(set(words_of(tool.server_tool)) & _CREATING)
    arguments: dict[str, Any] = {}
    for name, value in proposed.items():
        words = set(words_of(name))
        is_text = isinstance(value.value, str)
        is_new = is_creating or bool(words & _TARGETS)
        if value.source is Source.DRAWN or (is_text and words & _LONG):
            arguments[name] = _replaced(name, value.value, texts, markers)
        elif is_text and is_new and value.value.startswith("/") and words & (_PATHS | _TARGETS):
            arguments[name] = _new_path(value.value, texts, markers)
        elif is_text and is_new and words & _NAMES:
            arguments[name] = _replaced(name, value.value, texts, markers)
        else:
            arguments[name] = value.value
    return arguments, markers


def _new_path(known: str, texts: DrawnTexts, markers: list[str]) -> str:
    """Return a new file's path in the folder of a known one."""
    folder, _, entry = known.rpartition("/")
    file = f"{texts.name().replace(' ', '-')}.txt"
    markers.append(file)
    return f"{folder if '.' in entry else known}/{file}"


def _replaced(name: str, value: Any, texts: DrawnTexts, markers: list[str]) -> Any:
    """Replace every text in a drawn value, at any depth."""
    if isinstance(value, str):
        drawn = texts.sentence() if set(words_of(name)) & _LONG else texts.name()
        markers.append(drawn)
        return drawn
    if isinstance(value, list):
        return [_replaced(name, item, texts, markers) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(key, item, texts, markers) for key, item in value.items()}
    return value
