"""Takes what somebody typed for a company, gives the companies it may mean, best match first."""

import difflib
import re
from collections.abc import Sequence

from turnwise.servers.embedded.companies import Company

MAX_TYPED = 80
"""Characters compared: longer than any name, short enough that comparing stays quick whatever is sent."""


def normal_symbol(text: str) -> str:
    """How symbols are written: ` $abc ` and `abc` both mean `ABC`."""
    return text.strip().lstrip("$").strip().upper()


def matches(companies: Sequence[Company], text: str) -> list[Company]:
    """Companies whose symbol or name fits, best first; only when none does, the ones spelt most alike."""
    typed = " ".join(re.findall(r"\w+", text[:MAX_TYPED].lower()))
    if not typed:
        return []
    fitting = [(float(_fit(company, typed)), company) for company in companies]
    found = [(score, company) for score, company in fitting if score > 0]
    if not found:
        alike = [(_likeness(company, typed), company) for company in companies]
        found = [(score, company) for score, company in alike if score >= 0.6]
    return [company for _, company in sorted(found, key=lambda pair: (-pair[0], pair[1].symbol))]


def nearest(companies: Sequence[Company], symbol: str) -> list[Company]:
    """Companies with a symbol spelt somewhat like this one, most alike first."""
    by_symbol = {company.symbol: company for company in companies}
    found = difflib.get_close_matches(symbol[:MAX_TYPED], by_symbol, n=3, cutoff=0.4)
    return [by_symbol[each] for each in found]


def _fit(company: Company, typed: str) -> int:
    """Exact symbol, exact name, a prefix, all words, then the first word of the name."""
    symbol, name = company.symbol.lower(), company.name.lower()
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


def _likeness(company: Company, typed: str) -> float:
    """How alike the letters are, from 0 to 1, of the symbol, the name or its first word."""
    candidates = (company.symbol.lower(), company.name.lower(), company.name.split()[0].lower())
    return max(
        difflib.SequenceMatcher(None, candidate, typed, autojunk=False).ratio() for candidate in candidates
    )
