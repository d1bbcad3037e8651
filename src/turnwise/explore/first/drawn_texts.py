"""Texts drawn for changes: distinctive enough to be found again, plain enough to be asked for."""

import random

_ADJECTIVES = (
    "amber", "quiet", "northern", "silver", "early", "hollow", "gentle", "crimson", "distant", "frozen",
    "golden", "narrow", "patient", "rapid", "sunny", "velvet", "windy", "bright", "coastal", "dusty",
    "copper", "cedar", "misty", "polar", "rustic", "scarlet", "tidal", "violet", "winter", "ivory",
)  # fmt: skip
_NOUNS = (
    "harbour", "lantern", "orchard", "compass", "meadow", "anchor", "bridge", "canyon", "ember", "falcon",
    "garden", "island", "kettle", "ladder", "marble", "needle", "pebble", "quarry", "ribbon", "saddle",
    "barrel", "cabin", "drum", "easel", "fountain", "glacier", "hammock", "jacket", "mirror", "parade",
)  # fmt: skip
_SENTENCES = (
    "The {} opens at nine", "Ask Maria about the {}", "We moved the {} to Friday", "The {} needs new paint",
    "Please count the {} twice", "The {} is due next week", "Order one more for the {}", "The {} is open",
)  # fmt: skip
_MAX_ENDING = 5
_DATA_ENDINGS = (
    "json",
    "jsonl",
    "csv",
    "tsv",
    "xml",
    "yaml",
    "yml",
    "toml",
    "py",
    "js",
    "ts",
    "html",
    "svg",
    "db",
)


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


def path_like(known: str, texts: DrawnTexts, *, is_folder: bool = False, is_prose: bool = False) -> str:
    """Return a new path next to a known one: in its folder, and with its ending if it is of a file.

    Prose does not go into a file of data.
    """
    name = texts.name().replace(" ", "-")
    folder, slash, entry = known.rpartition("/")
    stem, dot, ending = entry.rpartition(".")
    is_file = bool(stem and dot and ending.isalnum() and len(ending) <= _MAX_ENDING)
    if not is_file:  # the known path is a folder itself
        folder, slash = (known.rstrip("/"), "/") if known not in ("", ".") else ("", "")
    if is_folder:
        return f"{folder}{slash}{name}"
    is_plain = is_file and not (is_prose and ending.lower() in _DATA_ENDINGS)
    return f"{folder}{slash}{name}.{ending if is_plain else 'txt'}"
