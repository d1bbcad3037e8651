"""A full-text index of pages, and the search for those that fit a query best."""

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from turnwise.worlds.market.web.documents import Page

MAX_TERMS = 24
"""The most query terms that are looked up; more would only slow the search."""

NUM_CANDIDATES = 60
"""Pages taken from the index and then ranked again: three times the most that are ever shown."""

COMMON_WORDS = frozenset(
    [
        "a",
        "about",
        "an",
        "and",
        "are",
        "as",
        "at",
        "by",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "in",
        "is",
        "it",
        "its",
        "me",
        "of",
        "on",
        "or",
        "tell",
        "that",
        "the",
        "their",
        "to",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
        "you",
    ]
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that matches a query, with a score from 0 to 1."""

    page: Page
    score: float


class Library:
    """The searchable pages of one world, in SQLite FTS5."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def search(self, query: str, *, limit: int) -> list[Hit]:
        """Return the best pages first; nothing in the query is read as FTS5 syntax."""
        terms = terms_of(query)
        if not terms:
            return []
        # A term in the title weighs twice as much as one in the text. bm25 is negative; the lowest is best.
        rows = self._database.execute(
            "SELECT url, title, text, bm25(page, 0.0, 2.0, 1.0) AS rank FROM page WHERE page MATCH ? "
            "ORDER BY rank, rowid LIMIT ?",
            (" OR ".join(f'"{term}"' for term in terms), NUM_CANDIDATES),
        )
        hits = [_hit(Page(url, title, text), terms, -rank) for url, title, text, rank in rows]
        return sorted(hits, key=lambda hit: -hit.score)[:limit]


def _hit(page: Page, terms: list[str], bm25: float) -> Hit:
    """Score a page: half bm25, which favours short pages, half the share of terms in page and title."""
    # bm25 has no upper bound, so it is squashed to (0, 1). 8 is typical of a hit on a name.
    return Hit(page, round(0.5 * bm25 / (8.0 + bm25) + 0.5 * _covered(page, terms), 4))


def rank(pages: Iterable[Page], query: str) -> list[Hit]:
    """Rank pages that are known to be about what the query names, best first; all score at least 0.5."""
    terms = terms_of(query)
    hits = [Hit(page, round(0.5 + 0.5 * _covered(page, terms), 4)) for page in pages]
    return sorted(hits, key=lambda hit: -hit.score)


def _covered(page: Page, terms: list[str]) -> float:
    title = set(re.findall(r"\w+", page.title.lower()))
    words = title | set(re.findall(r"\w+", page.text.lower()))
    return sum((term in words) + (term in title) for term in terms) / (2 * len(terms))


def write_pages(database: sqlite3.Connection, pages: Iterable[Page]) -> None:
    """Create the index and fill it."""
    database.execute("CREATE VIRTUAL TABLE page USING fts5(url UNINDEXED, title, text, tokenize='unicode61')")
    database.executemany(
        "INSERT INTO page (url, title, text) VALUES (?, ?, ?)",
        ((page.url, page.title, page.text) for page in pages),
    )
    database.execute("INSERT INTO page (page) VALUES ('optimize')")


def terms_of(query: str) -> list[str]:
    """Return the distinct words worth looking up; `\\w` leaves no quote or operator in them."""
    words = dict.fromkeys(re.findall(r"\w+", query.lower()))
    return [word for word in words if word not in COMMON_WORDS][:MAX_TERMS]


def passage(page: Page, query: str, *, max_chars: int) -> str:
    """Return up to `max_chars` of sentences, from the one with the most query terms that the title lacks."""
    sentences = re.split(r"(?<=[.!?\"]) (?=[A-Z\"])", page.text)
    wanted = set(terms_of(query)) - set(re.findall(r"\w+", page.title.lower()))
    hits = [len(wanted & set(re.findall(r"\w+", sentence.lower()))) for sentence in sentences]
    best = hits.index(max(hits))
    end = best + 1
    chosen = sentences[best][:max_chars]
    while end < len(sentences) and len(chosen) + 1 + len(sentences[end]) <= max_chars:
        chosen = f"{chosen} {sentences[end]}"
        end += 1
    return chosen
