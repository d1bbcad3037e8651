"""Compare names by their words: the parameter `channel_id` fits the field `id` of a record in `channels`."""

import re
from functools import lru_cache

MAX_NAME_CHARS = 120

GENERIC = frozenset(
    (
        *("id", "name", "key", "value", "item", "text", "title", "data", "result", "line", "code", "slug"),
        *("type", "number", "record", "row", "entry", "kind", "detail"),
    )
)
"""Words that say nothing about what is named, unless another word stands with them."""

_IDENTIFYING = frozenset(
    ("id", "name", "key", "item", "title", "line", "code", "slug", "number", "value", "text")
)
"""Generic words that may identify a record, other than its type or detail."""

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")
_VERBS = frozenset(
    (
        *("list", "get", "search", "find", "read", "fetch", "query", "show", "all", "describe", "lookup"),
        *("by", "for", "of", "the", "a", "in", "my", "available"),
    )
)
_SEARCHES = frozenset(("query", "q", "search", "keyword", "term", "find", "needle", "phrase"))
_TITLES = frozenset(
    ("name", "title", "label", "subject", "symbol", "tag", "category", "topic", "heading", "author", "text")
)
"""Fields whose texts are worth searching for."""
_SHORT_FORMS = {
    "ids": "id",
    "identifier": "id",
    "uid": "id",
    "dir": "folder",
    "directory": "folder",
    "filename": "file",
    "filepath": "path",
    "repo": "repository",
    "tz": "timezone",
    "lat": "latitude",
    "lon": "longitude",
    "lng": "longitude",
    "num": "number",
    "desc": "description",
    "org": "organization",
    "db": "database",
    "msg": "message",
}


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name, lower-case and singular: `channelIDs` is `("channel", "id")`."""
    return tuple(_normal(word.lower()) for word in _WORD.findall(name[:MAX_NAME_CHARS].replace("IDs", "Ids")))


@lru_cache(maxsize=20_000)
def topic_words(name: str) -> tuple[str, ...]:
    """Return the words that say what a table or a tool is about: `list_channels` is `("channel",)`."""
    return tuple(word for word in name_words(name) if word not in _VERBS)


@lru_cache(maxsize=5_000)
def names_several(tool_name: str) -> bool:
    """Whether a tool's name says that it answers with a list: `list_tables`, but not `describe_table`."""
    words = [word.lower() for word in _WORD.findall(tool_name[:MAX_NAME_CHARS])]
    return not {"list", "search", "find"}.isdisjoint(words) or any(singular(word) != word for word in words)


@lru_cache(maxsize=100_000)
def name_fit(parameter: str, name: str, context: str = "") -> int:
    """Return how well a value called `name`, found in `context`, fits a parameter: 0 (not) to 4 (equal)."""
    wanted, found = name_words(parameter), name_words(name)
    if not wanted or not found:
        return 0
    is_generic = set(found) <= GENERIC
    if wanted == found:
        return 2 if is_generic else 4
    if _SEARCHES.intersection(wanted) and _TITLES.intersection(found):
        return 2
    topic = topic_words(context)
    return _generic_fit(wanted, found, topic) if topic and is_generic else _word_fit(wanted, found)


def _generic_fit(wanted: tuple[str, ...], found: tuple[str, ...], topic: tuple[str, ...]) -> int:
    """Fit a generic field of a topic: the `id` in `channels` to `channel_id`, or its `name` to `channel`."""
    meant = set(wanted) - GENERIC
    if not _IDENTIFYING.intersection(found) or not meant or not meant <= set(topic):
        return 0
    return 4 if set(found) <= set(wanted) or set(wanted) == set(topic) else 3


def _word_fit(wanted: tuple[str, ...], found: tuple[str, ...]) -> int:
    if not (set(wanted) & set(found)) - GENERIC:
        return 0
    contains = set(wanted) <= set(found) or set(found) <= set(wanted)
    return (3 if wanted[-1] == found[-1] else 2) if contains else 1


def _normal(word: str) -> str:
    word = _SHORT_FORMS.get(word, word)
    return _SHORT_FORMS.get(singular(word), singular(word))


def singular(word: str) -> str:
    """Return the singular of an English plural; other words as they are."""
    if len(word) <= 3 or word.endswith(("ss", "us", "is")) or not word.endswith("s"):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    return word[:-1]
