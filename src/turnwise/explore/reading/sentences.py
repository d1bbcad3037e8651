"""Numbers that a sentence states: "The sum of 2 and 5 is 7." says that the sum is 7."""

import re

from turnwise.explore.reading.cells import number_in
from turnwise.explore.records import Cell

_MAX_CHARS = 300
_CLAUSE = re.compile(r",?\s+and\s+(?=the\b)|[.;,]\s+(?=the\b)", re.IGNORECASE)
_COPULA = re.compile(r"\b(?:is|are|was|were|equals)\b", re.IGNORECASE)
_STATED = re.compile(
    r"(?:the\s+)?([^\W\d_][^:;!?]*?)\s+(?:is|are|was|were|equals)\s+(-?\d+(?:\.\d+)?)(?:\s?([^\W\d_]+|%))?",
    re.IGNORECASE,
)
_END = re.compile(r"\s+(?:of|for|from|in|at|on|to|by|with|between|after|before)$", re.IGNORECASE)


def stated(text: str) -> dict[str, Cell]:
    """Return the numbers of a sentence by what they are; empty if it is no sentence of such statements."""
    bare = text.strip().removesuffix(".").removesuffix("!")
    if "\n" in bare or len(bare) > _MAX_CHARS:
        return {}
    found: dict[str, Cell] = {}
    for clause in _CLAUSE.split(bare):
        match = _STATED.fullmatch(clause.strip())
        name = _name(match[1]) if match else ""
        if name in found or not _COPULA.search(clause):
            return {}
        if match is None or not name:
            continue
        found[f"{name} in {match[3]}" if match[3] else name] = number_in(match[2])
    return found


def _name(subject: str) -> str:
    """Return the words of a subject before the first value in it: "square root" of "square root of 40"."""
    words: list[str] = []
    for word in subject.split():
        if not word.isalpha():
            break
        words.append(word)
    name = " ".join(words)
    while name != (shorter := _END.sub("", name)):
        name = shorter
    return name
