"""About 200 invented companies with their profiles, drawn from the world's seed."""

from dataclasses import dataclass
from datetime import date

from turnwise.worlds.market.data.businesses import (
    BUSINESSES,
    FIRST_NAMES,
    HEADS,
    LAST_NAMES,
    PLACES,
    TAILS,
    TICKER_ENDINGS,
    Business,
)
from turnwise.worlds.stream import Stream

NUM_COMPANIES = 200

SHARE_SCALES = (6, 20, 60, 200, 600)
"""Millions of shares, multiplied by one to three, so that sizes cover several orders of magnitude."""


@dataclass(frozen=True, slots=True)
class Company:
    """A company's profile: what does not change while the market trades."""

    symbol: str
    name: str
    sector: str
    industry: str
    products: tuple[str, ...]
    ceo: str
    employees: int
    country: str
    city: str
    founded: int
    listed_on: date
    exchange: str
    shares: int
    website: str
    sic_code: str
    sic_description: str
    reporting_lag_days: int
    """Days from the end of a quarter to its report."""

    @property
    def summary(self) -> str:
        """What the company does, in one sentence."""
        if not self.products:
            business = f" is in the {self.industry} industry, {self.country}" if self.industry else ""
            return f"{self.name} ({self.exchange}: {self.symbol}){business}."
        return (
            f"{self.name}, a company in the {self.industry} industry, sells "
            f"{', '.join(self.products[:-1])} and {self.products[-1]}."
        )

    @property
    def description(self) -> str:
        """What the company does and where; for a real listing, which has no products, what is invented."""
        if not self.products:
            return (
                f"{self.summary} Synthetic data: every figure, date and person given for it here is invented "
                "by turnwise's embedded world."
            )
        return (
            f"{self.summary} It was founded in {self.founded} and has its headquarters in {self.city}, "
            f"{self.country}."
        )


def make_companies(seed: int) -> tuple[Company, ...]:
    """Generate all companies, sorted by symbol."""
    stream = Stream(seed, "companies")
    names = _names(stream)
    ceos = _ceos(stream, len(names))
    taken: set[str] = set()
    companies = []
    for (root, business, noun), ceo in zip(names, ceos, strict=True):
        symbol = _ticker(root, taken, stream)
        taken.add(symbol)
        companies.append(_company(seed, symbol, f"{root} {noun}", business, ceo))
    return tuple(sorted(companies, key=lambda company: company.symbol))


def opening_cents(seed: int, symbol: str) -> int:
    """Return the share price before the first session."""
    stream = Stream(seed, "opening", symbol)
    return int(stream.pick((900, 2000, 4500, 9000, 18000)) * stream.between(1.0, 2.2))


def yearly_revenue(seed: int, symbol: str, shares: int, business: Business) -> int:
    """Estimate 2025 sales in dollars: opening market value over a price-to-sales ratio of the industry."""
    value = shares * opening_cents(seed, symbol) / 100
    return int(value / Stream(seed, "sales", symbol).between(*business.price_to_sales))


def _names(stream: Stream) -> list[tuple[str, Business, str]]:
    """Draw (root, business, noun) names; up to three companies share a root, so a root can be ambiguous."""
    roots = stream.shuffled([head + tail for head in HEADS for tail in TAILS])
    businesses = stream.shuffled(BUSINESSES)
    names: list[tuple[str, Business, str]] = []
    for root in roots:
        for _ in range(stream.pick((1, 1, 1, 2, 2, 3))):
            business = businesses[len(names) % len(businesses)]
            names.append((root, business, stream.pick(business.nouns)))
    return names[:NUM_COMPANIES]


def _ceos(stream: Stream, count: int) -> list[str]:
    people = stream.shuffled([(first, last) for first in FIRST_NAMES for last in LAST_NAMES])
    return [f"{first} {last}" for first, last in people[:count]]


def _ticker(root: str, taken: set[str], stream: Stream) -> str:
    """Join four letters of a root to an ending; companies of one root usually differ only in the ending."""
    letters = root.upper()
    stems = [letters[:4], *(letters[:3] + letter for letter in letters[4:])]
    endings = stream.shuffled(TICKER_ENDINGS)
    return next(stem + end for stem in stems for end in endings if stem + end not in taken)


def _company(seed: int, symbol: str, name: str, business: Business, ceo: str) -> Company:
    stream = Stream(seed, "company", symbol)
    # Whole thousands, so that cents × shares is a whole number of dollars everywhere.
    shares = int(stream.pick(SHARE_SCALES) * stream.between(1.0, 3.0) * 1000) * 1000
    revenue = yearly_revenue(seed, symbol, shares, business)
    country, cities = PLACES[0] if stream.unit() < 0.6 else stream.pick(PLACES[1:])
    founded = stream.integer(1921, 2014)
    listed = stream.integer(max(founded + 3, 1980), 2021)
    return Company(
        symbol=symbol,
        name=name,
        sector=business.sector,
        industry=business.industry,
        products=tuple(stream.shuffled(business.products)[:3]),
        ceo=ceo,
        employees=max(40, int(revenue / stream.between(180_000, 620_000))),
        country=country,
        city=stream.pick(cities),
        founded=founded,
        listed_on=date(listed, stream.integer(1, 12), stream.integer(1, 28)),
        exchange=stream.pick(("NASDAQ", "NYSE")),
        shares=shares,
        # .example is a reserved domain, so no link of this world leads to a real site.
        website=f"https://www.{name.lower().replace(' ', '')}.example",
        sic_code=business.sic_code,
        sic_description=business.sic_description,
        reporting_lag_days=stream.integer(18, 45),
    )
