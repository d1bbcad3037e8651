"""Find companies and real listings by what somebody typed: a search query, or a question that names them."""

import functools
import re

from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.listings import Listing, Listings
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.data.names import MAX_TYPED, alike, fit, fitting
from turnwise.worlds.market.data.tables import words

PLAIN_WORDS = frozenset(words("plain_words"))
"""Names that are also ordinary words: in a sentence they count only if written as in the table."""

SYMBOL_WORDS = frozenset(words("symbol_words"))
"""Symbols that are also words or abbreviations: in a sentence they count only after a dollar sign."""

EXACT = 5
"""The lowest score of a text that is a listing's full name or symbol."""

NUM_NAMED = 6
"""The most listings that are recognised in one question."""


def find_companies(market: Market, text: str, *, least: int = 1) -> list[Company]:
    """Return the invented companies that match; if there are none, matching listings and then guesses.

    A listing's full name ranks above invented companies that are only spelt alike: "Tesla" is not a misspelt
    "Teskuvex". If any are spelt alike, other listings do not count. `least` is the lowest score of a listing.
    """
    if companies := fitting(market.companies(), text):
        return companies
    guesses = alike(market.companies(), text)
    listed = search(market.listings, text, least=EXACT if guesses else least)
    return [*(listing.company for listing in listed), *guesses]


def search(listings: Listings, text: str, *, least: int = 1) -> list[Listing]:
    """Return listings with a matching symbol or name, best first; `least=EXACT` accepts full names only."""
    typed = _plain(text[:MAX_TYPED])
    exact = listings.find(text.strip().lstrip("$").upper())
    scored = [(7 if listing is exact else _score(listing, typed), listing) for listing in listings.all()]
    matching = [pair for pair in scored if pair[0] >= least]
    # Python's sort is stable: equal scores keep the order of the tables, the best known first.
    return [listing for _, listing in sorted(matching, key=lambda pair: -pair[0])]


def named_in(listings: Listings, text: str) -> list[Listing]:
    """Return the listings that a sentence names, by symbol in capitals or by name in whole words."""
    written = re.findall(r"(\$?)([A-Z0-9^][A-Z0-9^=.:/-]*)(?![a-z])", text)
    by_symbol = {
        known.company.symbol for sign, word in written if (known := _by_symbol(listings, sign, word))
    }
    by_name = _by_name(listings, _words(text).split())
    named = [listing for listing in listings.all() if listing.company.symbol in by_symbol | by_name]
    return named[:NUM_NAMED]


def _by_symbol(listings: Listings, sign: str, word: str) -> Listing | None:
    """Return the listing with this symbol; a single letter needs a `$`, since it is more often a word."""
    if not sign and (len(word) == 1 or word in SYMBOL_WORDS):
        return None
    return listings.find(word.rstrip(".:-/"))


def _by_name(listings: Listings, words: list[str]) -> set[str]:
    """Return the symbols of listings with a name that occurs as consecutive words."""
    names, longest = _names(listings)
    runs = (
        " ".join(words[start : start + length])
        for start in range(len(words))
        for length in range(1, longest + 1)
        if start + length <= len(words)
    )
    return {symbol for run in runs for written, symbol in names.get(run.lower(), ()) if written in ("", run)}


@functools.lru_cache(maxsize=4)
def _names(listings: Listings) -> tuple[dict[str, list[tuple[str, str]]], int]:
    """Return plain name → (required spelling, empty for any case; symbol), and the longest name in words."""
    names: dict[str, list[tuple[str, str]]] = {}
    for listing in listings.all():
        for name in listing.names:
            plain = _plain(name)
            # Two letters are a symbol or a word, and symbols are searched separately.
            if len(plain) > 2:
                written = _words(name) if plain in PLAIN_WORDS else ""
                names.setdefault(plain, []).append((written, listing.company.symbol))
    return names, max(len(plain.split()) for plain in names)


def _score(listing: Listing, typed: str) -> int:
    if not typed:
        return 0
    symbol, wanted = _plain(listing.company.symbol), typed.split()
    names = [_plain(name) for name in listing.names]
    begins = any(all(any(w.startswith(part) for w in name.split()) for part in wanted) for name in names)
    return max(int(begins), *(fit(symbol, name, typed) for name in names))


@functools.lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    return _words(text).lower()


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))
