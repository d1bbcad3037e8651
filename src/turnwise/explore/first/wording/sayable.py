"""Which names can be said in a question: words, not abbreviations that only their author knows."""

import re

from turnwise.explore.first.wording.names import is_plain_name, words_of
from turnwise.explore.first.wording.vocabulary import ACRONYMS, EXPANDED, PREPOSITIONS
from turnwise.explore.first.wording.word_set import word_set

_SHORT_WORDS = word_set(
    "id ids ip os no pi kg km cm mm up or and new old age day end due fee tax tag url key"
)
_FAILURES = word_set(
    "err error errors exception exceptions traceback stacktrace warning warnings failure failures"
)
"""What a tool says about a call, rather than about the things that it knows."""
_VOWEL = re.compile(r"[aeiouy]")


def is_sayable(name: str) -> bool:
    """Return whether a key of an answer is made of words: `due_date` is, `fm`, `ln` and `t` are not."""
    return (
        is_plain_name(name)
        and not name.startswith(("/", "."))
        and all(_is_word(word) for word in words_of(name))
    )


def is_failure(name: str) -> bool:
    """Return whether a key holds what went wrong in a call."""
    return not _FAILURES.isdisjoint(word.lower() for word in words_of(name))


def _is_word(word: str) -> bool:
    lower = word.lower()
    if not word.isascii() or lower.isdigit() or lower in _SHORT_WORDS | PREPOSITIONS:
        return True
    if lower in ACRONYMS or lower in EXPANDED or (word.isupper() and len(word) > 1):
        return True
    return len(word) > 2 and _VOWEL.search(lower) is not None
