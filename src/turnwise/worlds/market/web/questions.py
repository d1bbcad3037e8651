"""Recognise what a question names: companies, a period, a day, a group of companies."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from turnwise.worlds.market.data.businesses import BUSINESS_OF, PLACES, SECTORS
from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.listed_names import named_in
from turnwise.worlds.market.data.listings import Listing
from turnwise.worlds.market.data.market import Market

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4}


@dataclass(frozen=True, slots=True)
class Question:
    """A question and what was recognised in it."""

    text: str
    """The question in lower case, without the names that were recognised."""
    companies: tuple[Company, ...]
    """Companies named by symbol or name, in the order of the question."""
    namesakes: tuple[Company, ...]
    """The candidates if the question has only the first word of a name and several companies share it."""
    led_by: tuple[Company, ...]
    """Companies whose chief executive is named."""
    group: tuple[Company, ...]
    """Companies in the sector, industry and country named; all companies if none is named."""
    group_name: str
    year: int | None
    quarter: int | None
    day: date | None


def read_question(companies: Sequence[Company], text: str) -> Question:
    """Recognise names, periods and groups, ignoring case; no text makes this raise."""
    plain = " ".join(text.lower().split())
    named = _named(companies, plain)
    led_by = tuple(company for company in companies if company.ceo and company.ceo.lower() in plain)
    rest = _without_names(plain, named, led_by)
    year, quarter = _period(rest)
    group, group_name = _group(companies, rest)
    return Question(
        text=rest,
        companies=named,
        namesakes=() if named else _namesakes(companies, plain),
        led_by=led_by,
        group=group,
        group_name=group_name,
        year=year,
        quarter=quarter,
        day=_day(rest),
    )


def listings_named(market: Market, text: str) -> list[Listing]:
    """Return the real listings that a text names; none if it names an invented company or its CEO."""
    named = named_in(market.listings, text)
    if not named:
        return []
    invented = read_question(market.companies(), text)
    return [] if invented.companies or invented.namesakes or invented.led_by else named


def _named(companies: Sequence[Company], plain: str) -> tuple[Company, ...]:
    words = re.findall(r"\w+", plain)
    # With spaces at both ends, `find` matches whole words only.
    spaced = f" {' '.join(words)} "
    places: list[tuple[int, Company]] = []
    for company in companies:
        place = max(spaced.find(f" {name.lower()} ") for name in (company.name, company.symbol))
        if place >= 0:
            places.append((place, company))
    if not places:
        places = [(0, only) for only in _only_bearer(companies, set(words))]
    return tuple(company for _, company in sorted(places, key=lambda pair: (pair[0], pair[1].symbol)))


def _without_names(plain: str, named: Sequence[Company], led_by: Sequence[Company]) -> str:
    """Remove names from a question: "Auto Parts" in a name is not a question about parts."""
    names = [name for company in named for name in (company.name, company.symbol)]
    for name in (*names, *(company.ceo for company in led_by)):
        plain = plain.replace(name.lower(), " ")
    return plain


def _only_bearer(companies: Sequence[Company], words: set[str]) -> list[Company]:
    """Return companies whose name's first word occurs and is shared with no other company."""
    bearers = _bearers(companies, words)
    return [group[0] for group in bearers.values() if len(group) == 1]


def _namesakes(companies: Sequence[Company], plain: str) -> tuple[Company, ...]:
    bearers = _bearers(companies, set(re.findall(r"\w+", plain)))
    return tuple(company for group in bearers.values() for company in group)


def _bearers(companies: Sequence[Company], words: set[str]) -> dict[str, list[Company]]:
    bearers: dict[str, list[Company]] = {}
    for company in companies:
        root = company.name.split()[0].lower()
        if root in words:
            bearers.setdefault(root, []).append(company)
    return bearers


def _group(companies: Sequence[Company], plain: str) -> tuple[tuple[Company, ...], str]:
    sector = next((name for name in SECTORS if name.lower() in plain), None)
    # Industry names like "Solar" and "Trucking" count only if the word "industry" follows.
    industry = next((name for name in BUSINESS_OF if f"{name.lower()} industry" in plain), None)
    country = next((name for name, _ in PLACES if name.lower() in plain), None)
    chosen = tuple(
        company
        for company in companies
        if (sector is None or company.sector == sector)
        and (industry is None or company.industry == industry)
        and (country is None or company.country == country)
    )
    limits = [
        f"the {industry} industry" if industry else f"the {sector} sector" if sector else "",
        f"{country}" if country else "",
    ]
    name = " of ".join(part for part in limits if part)
    return chosen, f"in {name}" if name else "of all listed companies"


def _period(plain: str) -> tuple[int | None, int | None]:
    year = re.search(r"\b(20\d\d)\b", plain)
    quarter = re.search(r"\bq([1-4])\b", plain)
    spelt = re.search(r"\b(first|second|third|fourth)[ -]quarter\b", plain)
    number = int(quarter[1]) if quarter else ORDINALS[spelt[1]] if spelt else None
    return (int(year[1]) if year else None), number


def _day(plain: str) -> date | None:
    iso = re.search(r"\b(20\d\d)-(\d\d)-(\d\d)\b", plain)
    spelt = re.search(rf"\b({'|'.join(MONTHS)}) (\d{{1,2}})(?:st|nd|rd|th)?,? (20\d\d)\b", plain)
    try:
        if iso:
            return date(int(iso[1]), int(iso[2]), int(iso[3]))
        if spelt:
            return date(int(spelt[3]), MONTHS.index(spelt[1]) + 1, int(spelt[2]))
    except ValueError:  # no such day, like February 30
        return None
    return None
