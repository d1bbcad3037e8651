"""Identifiers and values as plain English: `num_stars` is "number of stars"."""

import json
import re
import unicodedata
from collections.abc import Sequence

from turnwise.explore.first.wording.vocabulary import (
    ACRONYMS,
    ADJECTIVES,
    AGENTS,
    EVENTS,
    EXPANDED,
    IRREGULAR,
    MONEY,
    ORDINALS,
    PREPOSITIONS,
    UNCHANGED,
)
from turnwise.explore.first.wording.word_set import word_set

MAX_NAME_CHARS = 40
MAX_NAME_WORDS = 6
MAX_INLINE_CHARS = 80
"""A longer value does not fit into a sentence."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]|\d+")
_PLAIN_NAME = re.compile(r"[\w .\-/%$()]+")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

_SINGULARS = {many: one for one, many in IRREGULAR.items()}


def is_plain_name(name: str) -> bool:
    """Return whether a key of an answer may stand in a question: short, of words, with a letter in it."""
    return (
        0 < len(name) <= MAX_NAME_CHARS
        and _PLAIN_NAME.fullmatch(name) is not None
        and any(char.isalpha() for char in name)
        and len(_WORD.findall(name)) <= MAX_NAME_WORDS
    )


def words_of(name: str) -> list[str]:
    """Return the words of an identifier as people write them: `sourceURL` gives `source` and `URL`."""
    text = unicodedata.normalize("NFKC", name[: 4 * MAX_NAME_CHARS])
    if not text.isascii():  # case is no boundary in most scripts
        return [word for word in re.split(r"[\W_]+", text.lower()) if word][: 2 * MAX_NAME_WORDS]
    is_shouted = not any(char.islower() for char in text)
    return [_written(word, is_shouted) for word in _WORD.findall(text)[: 2 * MAX_NAME_WORDS]]


def humanised(name: str) -> str:
    """Return an identifier as words: `created_at` is "created at", `star_count` is "number of stars"."""
    words = words_of(name)
    if len(words) > 1 and words[0] in ("is", "has", "n"):
        words = words[1:] if words[0] != "n" else ["number of", *words[1:]]
    if len(words) > 1 and words[-1] == "count" and words[-2] not in ADJECTIVES and words[0] != "number of":
        words = ["number of", *words[:-2], plural(words[-2])]
    words = [EXPANDED.get(word, word) for word in words]
    if words[-1:] == ["number of"]:
        words[-1] = "number"
    return " ".join(words).replace("day of week", "day of the week")


def field_noun(name: str, *, is_date: bool = False, is_count: bool = False) -> str:
    """Return a field's name as a noun without an article: `created_at` is "creation time"."""
    words = words_of(name)
    if 0 < len(words) <= 2 and words[0] in EVENTS and words[1:] in ([], ["at"], ["on"], ["date"], ["time"]):
        is_day = is_date or words[1:] in (["on"], ["date"])
        if is_date or len(words) == 2:
            return f"{EVENTS[words[0]]} {'date' if is_day else 'time'}"
    if len(words) == 2 and words[1] == "by" and words[0] in AGENTS:
        return AGENTS[words[0]]
    if is_date and words in (["timestamp"], ["datetime"], ["date", "time"], ["time"]):
        return "date"
    if is_count and words and is_plural(words[-1]) and words[-1] not in MONEY and words[0] != "number":
        human = humanised(name)
        rest = human.removeprefix("total ")
        return f"{'' if rest == human else 'total '}number of {rest}"
    if not _is_noun(words):
        return f"value of “{' '.join(name.split()) if ' ' in name else humanised(name) or name.strip()}”"
    return humanised(name)


def is_quoted_noun(noun: str) -> bool:
    """Return whether a field's name is quoted, because it is no noun: "value of “units sold”"."""
    return noun.startswith("value of “")


def condition(noun: str, value: object) -> str:
    """Return "whose state is “open”", "for which “from” is “Ann”"."""
    if is_quoted_noun(noun):
        return f"for which {noun.removeprefix('value of ')} is {quoted(value)}"
    return f"whose {noun} is {quoted(value)}"


def singular(noun: str) -> str:
    """Return the singular of a noun's last word; unchanged if it is no plural."""
    head, _, last = noun.rpartition(" ")
    return f"{head} {_singular_word(last)}".strip()


def plural(noun: str) -> str:
    """Return the plural of a noun's last word."""
    head, _, last = noun.rpartition(" ")
    return f"{head} {_plural_word(last)}".strip()


def is_plural(noun: str) -> bool:
    last = noun.rpartition(" ")[2]
    return _singular_word(last) != last


def ordinal(number: int) -> str:
    """Return 2 as "second", 11 as "11th"."""
    if 0 <= number < len(ORDINALS):
        return ORDINALS[number]
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{suffix}"


def listing(items: Sequence[str]) -> str:
    """Return "a, b and c"."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def with_article(noun: str) -> str:
    """Return the noun with "a" or "an" before it."""
    first = noun.partition(" ")[0]
    is_vowel = noun[:1] in "aeioAEIO" or (
        noun[:1] in "uU" and not re.match(r"(?i)uni|use|usa|uu|url|uri|uti", noun)
    )
    if re.match(r"(?i)(?:hour|honest|honou?r|heir)", noun):
        is_vowel = True
    if first.isupper():  # an acronym is spelled out: "an SQL query", "a URL"
        is_vowel = noun[:1] in "AEFHILMNORSX"
    return f"{'an' if is_vowel else 'a'} {noun}"


def is_iso_date(text: str) -> bool:
    """Return whether a text is a date, or a date with a time, in ISO 8601."""
    return len(text) <= 35 and _ISO_DATE.fullmatch(text) is not None


def fits_in_sentence(value: object) -> bool:
    """Return whether a value is short and simple enough to be quoted within a sentence."""
    if isinstance(value, str):
        is_printable = all(char.isprintable() for char in value[: MAX_INLINE_CHARS + 1])
        return len(value) <= MAX_INLINE_CHARS and is_printable and not any(char in "“”" for char in value)
    return isinstance(value, bool | int | float) and len(repr(value)) <= MAX_INLINE_CHARS


def quoted(value: object) -> str:
    """Return a value as it stands in a sentence: texts in quotes, numbers and dates bare."""
    if isinstance(value, str):
        return value if _NUMBER.fullmatch(value) or is_iso_date(value) else f"“{value}”"
    return json.dumps(value, ensure_ascii=False)


_PARTICIPLES = word_set("born sold left spent sent paid held open found made done seen written")


def _is_noun(words: Sequence[str]) -> bool:
    """Return whether a name reads as a noun: no preposition at its ends, no participle, and a vowel."""
    if not words or words[0].isdigit() or words[0] in PREPOSITIONS or words[-1] in PREPOSITIONS:
        return False
    last = words[-1]
    is_participle = last in _PARTICIPLES or (
        last.endswith("ed") and not last.endswith("eed") and len(last) > 4
    )
    has_vowel = last.isupper() or not last.isascii() or re.search(r"[aeiouy]", last) is not None
    return not is_participle and has_vowel and (last.isupper() or len(words) > 1 or len(last) > 2)


def _written(word: str, is_shouted: bool) -> str:
    if word.lower() in ACRONYMS or (word.isupper() and len(word) > 1 and not is_shouted):
        return word.upper()
    return word.lower()


def _singular_word(word: str) -> str:
    lower = word.lower()
    if lower in _SINGULARS:
        return _SINGULARS[lower]
    if lower in UNCHANGED or not lower.endswith("s") or lower.endswith(("ss", "us", "is")) or len(word) < 3:
        return word
    if lower.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if lower.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def _plural_word(word: str) -> str:
    lower = word.lower()
    if lower in IRREGULAR:
        return IRREGULAR[lower]
    if (
        _singular_word(word) != word
        or not word
        or lower in ("data", "news", "information", "metadata", "series")
    ):
        return word
    if word.isupper():
        return f"{word}s"
    if lower.endswith("y") and lower[-2:-1] not in tuple("aeiou"):
        return word[:-1] + "ies"
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word + "s"
