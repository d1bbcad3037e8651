"""Which answered calls are worth a question: those that a person would make, said as shortly as possible."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from turnwise.explore.first.answer_status import says_error
from turnwise.explore.first.observation import Observation
from turnwise.explore.first.wording.names import words_of
from turnwise.explore.first.wording.word_set import word_set
from turnwise.types import Tool

MAX_NUMBER = 1_000_000_000
"""A larger number in a call is a clock or an id that strayed into a count."""

_MIN_ECHO_CHARS = 4
_MAX_DECIMALS = 4
_DATE_CHARS = 10
_MAX_COMPARED = 20
_MIN_TELLING_CHARS = 12
"""Shorter answers are alike by chance."""

_SECRETS = word_set("""
    env environment environ secret secrets credential credentials password passwords token tokens keyring
""")
_SERVER_FACTS = word_set("info information status version capabilities stats details config configuration")
_HEALTH = word_set("health healthcheck ping heartbeat liveness")
_WHOLE = word_set("line lines page index count limit number offset depth row column num")
"""Parameters that take whole numbers, whatever their schema allows."""
_IDS = word_set("id ids key number phone isbn timestamp time since until before after epoch")
_BEGINNINGS = {"start": "end", "from": "to", "min": "max", "first": "last", "minimum": "maximum"}
_DEPRECATED = re.compile(r"\bdeprecated\b", re.IGNORECASE)
_MAX_SOUGHT_WORDS = 8
_MIN_SOUGHT_DIGITS = 3
"""A year or a number of an order is searched for, a single digit is not."""
_SEARCHES = word_set("query q search find term keyword keywords path paths file name")
_ODD_TEXT = re.compile(r"\[\[|\]\]|[{}<>\n\r\t]|^[-*#>] ")
"""Pieces of markup and code, which nobody searches for and no file is called."""


@dataclass(frozen=True, slots=True)
class Worth:
    """The calls that questions may be about."""

    observations: tuple[Observation, ...]
    wordy: frozenset[int]
    """Numbers of calls that another one says more shortly: only an earlier answer can lead to them."""
    why_not: Mapping[str, str]
    """By tool: why no call of it is among them."""


def worth_asking_about(observations: Sequence[Observation]) -> Worth:
    """Return the calls to ask about, with the shortest paths that the server was seen to accept."""
    private = {seen.tool.name: why for seen in observations if (why := _why_private(seen.tool))}
    sensible = [seen for seen in observations if seen.tool.name not in private and _is_sensible(seen)]
    spelled = _with_short_paths(sensible)
    wordy = {seen.number for seen in _wordy(spelled)}
    kept = [seen for seen in spelled if seen.number not in wordy or _is_led_to(seen)]
    replaced = _replaced(kept)
    return Worth(
        tuple(seen for seen in kept if seen.tool.name not in replaced),
        frozenset(wordy),
        {**private, **replaced},
    )


def _why_private(tool: Tool) -> str:
    """Return why a tool is about its server rather than about what the server knows; empty if it is not."""
    words = {word.lower() for word in words_of(tool.server_tool)}
    if words & _SECRETS:
        return "it shows secrets of its server"
    is_about_server = "server" in words and words & _SERVER_FACTS
    return "it describes its server" if is_about_server or words & _HEALTH else ""


def _replaced(observations: Sequence[Observation]) -> dict[str, str]:
    """Return the deprecated tools whose answers another tool gives too."""
    by_text: dict[str, set[str]] = {}
    for seen in observations:
        if not _DEPRECATED.search(seen.tool.description):
            by_text.setdefault(seen.document.text, set()).add(seen.tool.name)
    old = {seen.tool.name for seen in observations if _DEPRECATED.search(seen.tool.description)}
    return {
        seen.tool.name: f"it is deprecated, and {min(by_text[seen.document.text])} answers the same"
        for seen in observations
        if seen.tool.name in old and seen.document.text in by_text
    }


def _is_sensible(seen: Observation) -> bool:
    """Return whether a person could have made the call: no error as a text, no clock as a count."""
    arguments = seen.plain_arguments
    return all(_is_usual(name, value) for name, value in arguments.items()) and not _is_backwards(arguments)


def _is_usual(name: str, value: object) -> bool:
    match value:
        case bool():
            return True
        case int() | float():
            words = {word.lower() for word in words_of(name)}
            is_broken = isinstance(value, float) and not value.is_integer() and not words.isdisjoint(_WHOLE)
            return not is_broken and (abs(value) < MAX_NUMBER or not words.isdisjoint(_IDS))
        case str():
            is_sought = not _SEARCHES.isdisjoint(word.lower() for word in words_of(name))
            is_odd = (is_sought or "/" in value) and _ODD_TEXT.search(value)
            is_long = is_sought and len(value.split()) > _MAX_SOUGHT_WORDS
            is_digit = is_sought and len(value) < _MIN_SOUGHT_DIGITS and value.isdigit()
            return not (says_error(value) or is_odd or is_long or is_digit)
        case dict():
            return all(_is_usual(key, item) for key, item in value.items())
        case list():
            return all(item != {} and _is_usual(name, item) for item in value)
    return True


def _is_backwards(arguments: Mapping[str, object]) -> bool:
    """Return whether a range ends before it begins."""
    numbers = {name: value for name, value in arguments.items() if isinstance(value, int | float)}
    for name, value in numbers.items():
        words = words_of(name)
        if words and words[0] in _BEGINNINGS:
            wanted = [_BEGINNINGS[words[0]], *words[1:]]
            if any(words_of(other) == wanted and end < value for other, end in numbers.items()):
                return True
    return False


def _is_led_to(seen: Observation) -> bool:
    return any(value.observation is not None for value in seen.arguments.values())


def _wordy(observations: Sequence[Observation]) -> Iterator[Observation]:
    """Yield the calls that another one says in fewer arguments, or with a shorter path."""
    alike: dict[tuple[str, str], list[Observation]] = {}
    for seen in observations:
        alike.setdefault((seen.tool.name, seen.document.text), []).append(seen)
    for seen in observations:
        others = alike[(seen.tool.name, seen.document.text)]
        if _has_long_number(seen) or any(other is not seen and _says_less(other, seen) for other in others):
            yield seen


def _has_long_number(seen: Observation) -> bool:
    """Return whether a number has more decimals than a person would type: another answer stated it."""
    numbers = [value for value in seen.plain_arguments.values() if isinstance(value, float)]
    return any(round(number, _MAX_DECIMALS) != number for number in numbers)


def _with_short_paths(observations: Sequence[Observation]) -> list[Observation]:
    """Return the calls with paths below a folder instead of whole ones, where the server takes both alike.

    A call that another answer led to keeps its path, and is there with the short path too.
    """
    folders = _accepted_folders(observations)
    next_number = 1 + max((seen.number for seen in observations), default=0)
    found: dict[str, Observation] = {}
    for seen in observations:
        short = _below(seen, folders.get(seen.tool.server, ""))
        if _is_led_to(seen):
            found.setdefault(seen.key, seen)
            short = replace(short, number=next_number + seen.number)
        found.setdefault(short.key, short)
    return list(found.values())


def _accepted_folders(observations: Sequence[Observation]) -> dict[str, str]:
    """Return by server the folder that its relative paths are in: both kinds of path gave the same answer."""
    answers: dict[tuple[str, str], list[str]] = {}
    folders: dict[str, str] = {}
    for seen in observations:
        for name, value in seen.plain_arguments.items():
            if isinstance(value, str) and len(seen.document.text) >= _MIN_TELLING_CHARS:
                rest = {other: given for other, given in seen.plain_arguments.items() if other != name}
                key = (seen.tool.name, f"{name} {rest} {seen.document.text}")
                answers.setdefault(key, []).append(value)
                for other in answers[key][:_MAX_COMPARED]:
                    if other != value and _is_same(other, value):
                        folders.setdefault(seen.tool.server, _folder_of(other, value))
    return {server: folder for server, folder in folders.items() if folder.strip("/")}


def _folder_of(one: str, two: str) -> str:
    short, long = sorted((posixpath.normpath(one), posixpath.normpath(two)), key=len)
    return long if short == "." else long.removesuffix(f"/{short}")


def _below(seen: Observation, folder: str) -> Observation:
    if not folder:
        return seen
    arguments = {
        name: replace(value, value=_relative(value.value, folder)) for name, value in seen.arguments.items()
    }
    return replace(seen, arguments=arguments)


def _relative(value: object, folder: str) -> object:
    if isinstance(value, list):
        return [_relative(item, folder) for item in value]
    if not isinstance(value, str):
        return value
    if value == folder:
        return "."
    return (value.removeprefix(f"{folder}/").removeprefix("./") or value) if "/" in value else value


def _says_less(shorter: Observation, longer: Observation) -> bool:
    """Return whether one call says the same as another in fewer or shorter words."""
    one, two = shorter.plain_arguments, longer.plain_arguments
    if not one.keys() <= two.keys() or not all(_is_same(one[name], two[name]) for name in one):
        return False
    return (len(one), len(str(one)), shorter.number) < (len(two), len(str(two)), longer.number)


def _is_same(one: object, two: object) -> bool:
    """Return whether two arguments mean the same thing: equal, or a path and its end."""
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(_is_same, one, two))
    if one == two or not isinstance(one, str) or not isinstance(two, str):
        return one == two
    short, long = sorted((posixpath.normpath(one), posixpath.normpath(two)), key=len)
    return long.startswith("/") and not short.startswith("/") and (short == "." or long.endswith(f"/{short}"))


def is_echo(value: object, seen: Observation) -> bool:
    """Return whether a value repeats an argument, or the name in a path: no call is needed to know it."""
    text = str(value)
    for argument in seen.plain_arguments.values():
        for given in argument if isinstance(argument, list) else [argument]:
            if text == str(given) or (isinstance(given, str) and _repeats(text, given)):
                return True
            if isinstance(given, float) and isinstance(value, float) and value == round(given, 2):
                return True
    return False


def _repeats(text: str, given: str) -> bool:
    path = posixpath.normpath(given)
    name = posixpath.basename(path)
    if len(text) == _DATE_CHARS and given.startswith(text):  # the date of a time
        return True
    is_part = len(path) > _MIN_ECHO_CHARS and path in text and 2 * len(path) > len(text)
    return is_part or text in (path, name, posixpath.splitext(name)[0])
