"""What a typed search means, and the excerpt of an episode that shows a hit."""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.dashboard.views.token_texts import Pieces

MAX_TERMS = 32
"""The most words and phrases of one search; further ones are ignored, and the page says so."""

_BEFORE, _AFTER = 40, 100
"""The characters of an excerpt before the first hit and from it on."""

_TERM = re.compile(r'"([^"]*)"?|([^\s"]+)')
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Passage:
    """One text of an episode."""

    where: str
    turn: int
    """The turn it belongs to, counted from 1; 0 for the question."""
    text: str


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The surroundings of a hit."""

    where: str
    turn: int
    parts: tuple[tuple[str, bool], ...]
    """Pieces of text, each with whether it is a hit."""


def terms_of(typed: str) -> list[tuple[str, ...]]:
    """The terms of a search, each as the words that must follow one another.

    `get_order "no such id" 185.48` has three terms: (get, order), (no, such, id) and (185, 48).
    """
    terms = (_words(phrase or word) for phrase, word in _TERM.findall(typed))
    return list(dict.fromkeys(words for words in terms if words))


def match_of(typed: str) -> str:
    """The FTS5 expression of a search: only letters, digits and quotes, so no input is a syntax error."""
    phrases = [f'"{" ".join(words)}"' for words in terms_of(typed)[:MAX_TERMS]]
    return " AND ".join(phrases) or '""'  # an empty phrase matches nothing


def passages_of(record: Mapping[str, Any], pieces: Pieces | None) -> Iterator[Passage]:
    """Everything that is searched: what the user, the model and the tools said.

    What a malformed turn wrote is in its tokens alone, so it is searched only with a tokenizer.
    """
    played = record["trajectory"]
    for message in played["task"]["prompt"]:
        if message["role"] == "user":
            yield Passage("question", 0, str(message["content"]))
    for number, turn in enumerate(played["turns"], start=1):
        parsed = turn["parsed"]
        for where, words in (("user", turn.get("user", "")), ("reasoning", parsed["reasoning"])):
            yield Passage(where, number, str(words))
        yield Passage("answer" if not parsed["calls"] else "text", number, str(parsed["text"]))
        if parsed["error"] is not None and pieces is not None:
            yield Passage("malformed", number, pieces.text(turn["completion"]["token_ids"]) or "")
        for call in parsed["calls"]:
            written = json.dumps(call["arguments"], ensure_ascii=False)
            yield Passage("call", number, f"{call['name']} {written}")
        for result in turn["results"]:
            yield Passage("tool result", number, str(result["content"]))
    yield Passage("environment", len(played["turns"]), str(played.get("last_reply", "")))


def excerpt_of(passages: Sequence[Passage], typed: str) -> Excerpt | None:
    """The surroundings of the first hit, with every hit in them marked; None if no passage has one."""
    pattern = _pattern(terms_of(typed)[:MAX_TERMS])
    for passage in passages:
        folded = _folded(passage.text)
        first = pattern.search(folded) if pattern else None
        if first is None:
            continue
        start, end = max(0, first.start() - _BEFORE), max(first.start() + _AFTER, first.end())
        parts, at = [("…", False)] if start else [], start
        for hit in pattern.finditer(folded, first.start(), end) if pattern else ():
            parts += [(passage.text[at : hit.start()], False), (passage.text[hit.start() : hit.end()], True)]
            at = hit.end()
        parts += [(passage.text[at:end], False), ("…" if end < len(passage.text) else "", False)]
        return Excerpt(passage.where, passage.turn, tuple(part for part in parts if part[0]))
    return None


def _pattern(terms: Sequence[Sequence[str]]) -> re.Pattern[str] | None:
    """Match any of the terms as whole words; the longest first."""
    phrases = [r"[\W_]+".join(map(re.escape, words)) for words in terms]
    choices = "|".join(sorted(phrases, key=len, reverse=True))
    return re.compile(rf"(?<![^\W_])(?:{choices})(?![^\W_])") if choices else None


def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(_folded(text)))


def _folded(text: str) -> str:
    """Lower case and without accents, as FTS5 folds words; every character stays at its place."""
    if text.isascii():
        return text.lower()
    return "".join(unicodedata.normalize("NFD", character)[0].lower()[:1] for character in text)
