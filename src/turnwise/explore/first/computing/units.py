"""Names of units and currencies as they stand after a number: "3 square feet", "250 USD"."""

import re

from turnwise.explore.first.wording.names import is_plural, plural

_WORDS = re.compile(r"[a-z]+(?:[ -][a-z]+)*")
_BRACKETED = re.compile(r"([a-z][a-z -]*) (\([^()]{1,30}\))")
_JOINTS = re.compile(r" (?:per|of|force)\b")
_SHORT = re.compile(r"[A-Za-z°µ%/²³0-9]{1,4}|[A-Z]{2,5}")
_SHORT_WORDS = frozenset(("bar", "bit", "cup", "day", "erg", "kip", "mil", "rod", "ton"))
_DEGREES = {"celsius": "degrees Celsius", "fahrenheit": "degrees Fahrenheit", "rankine": "degrees Rankine"}
_UNCHANGED = frozenset(("kelvin", "horsepower", "hertz", "lux", "siemens", "psi", "psf", "mach"))


def unit_phrase(unit: str) -> str:
    """Return the plural of a unit's name: "miles per hour"; in quotes if it does not read as one."""
    name = " ".join(unit.replace("_", " ").replace("‑", "-").split())
    if name.lower() in _DEGREES:
        return _DEGREES[name.lower()]
    if name.lower() in _UNCHANGED:
        return name.lower()
    if _SHORT.fullmatch(name) and not _is_word(name):
        return name
    bracketed = _BRACKETED.fullmatch(name)
    if bracketed is not None:
        return f"{_many(bracketed[1])} {bracketed[2]}"
    return _many(name) if _WORDS.fullmatch(name) and not name.startswith("speed of") else f"“{unit}”"


def is_natural(unit: str) -> bool:
    """Return whether a unit's name can follow a number without quotes."""
    return not unit_phrase(unit).startswith("“")


def _many(name: str) -> str:
    """Return the plural of the head: what stands before "per", "of" or "force", and is not plural yet."""
    joint = _JOINTS.search(name)
    head, rest = (name[: joint.start()], name[joint.start() :]) if joint else (name, "")
    is_many = any(is_plural(word) for word in head.split()) or head in _UNCHANGED
    return f"{head if is_many else plural(head)}{rest}"


def _is_word(name: str) -> bool:
    """Return whether a short name is a word and no symbol: "acre", "cup"."""
    is_pronounced = name.islower() and len(name) == 4 and re.search(r"[aeiou]", name) is not None
    return is_pronounced or name in _SHORT_WORDS
