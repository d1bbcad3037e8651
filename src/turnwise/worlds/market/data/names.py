"""Find the companies that a typed name or symbol may mean, best match first."""

import difflib
import re
from collections.abc import Sequence

from turnwise.worlds.market.data.companies import Company

MAX_TYPED = 80
"""Characters compared: more than any name has, few enough that comparing is fast for any input."""


def normal_symbol(text: str) -> str:
    """Normalise a symbol: ` $abc ` and `abc` both become `ABC`."""
    return text.strip().lstrip("$").strip().upper()


def fitting(companies: Sequence[Company], text: str) -> list[Company]:
    """Return companies whose symbol or name matches the typed text, best first."""
    typed = _plain(text)
    scores = [(fit(company.symbol.lower(), company.name.lower(), typed), company) for company in companies]
    return _best_first([(score, company) for score, company in scores if typed and score > 0])


def alike(companies: Sequence[Company], text: str) -> list[Company]:
    """Return companies spelt like the typed text, most similar first: a guess for when nothing matches."""
    typed = _plain(text)
    scores = [(_likeness(company, typed), company) for company in companies if typed]
    return _best_first([(score, company) for score, company in scores if score >= 0.6])


def nearest(companies: Sequence[Company], symbol: str) -> list[Company]:
    """Return companies with a symbol spelt like this one, most similar first."""
    by_symbol = {company.symbol: company for company in companies}
    matches = difflib.get_close_matches(symbol[:MAX_TYPED], by_symbol, n=3, cutoff=0.4)
    return [by_symbol[word] for word in matches]


def fit(symbol: str, name: str, typed: str) -> int:
    """Score a match from 6 (exact symbol) to 1 (first word of the name), 0 for none; all in lower case."""
    words, wanted = name.split(), typed.split()
    if typed == symbol:
        return 6
    if typed == name:
        return 5
    if name.startswith(typed) or symbol.startswith(typed):
        return 4
    if all(word in words or word == symbol for word in wanted):
        return 3
    if name in typed or symbol in wanted:
        return 2
    return int(words[0] in wanted)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text[:MAX_TYPED].lower()))


def _best_first(scores: Sequence[tuple[float, Company]]) -> list[Company]:
    return [company for _, company in sorted(scores, key=lambda pair: (-pair[0], pair[1].symbol))]


def _likeness(company: Company, typed: str) -> float:
    """Return the best similarity, from 0 to 1, to the symbol, the name or its first word."""
    candidates = (company.symbol.lower(), company.name.lower(), company.name.split()[0].lower())
    return max(
        difflib.SequenceMatcher(None, candidate, typed, autojunk=False).ratio() for candidate in candidates
    )
