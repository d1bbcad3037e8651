"""The real tickers that the embedded world lists: real names and industries, invented figures."""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from turnwise.worlds.market.data.bars import Course, follow
from turnwise.worlds.market.data.businesses import BUSINESS_OF, FIRST_NAMES, LAST_NAMES, Business
from turnwise.worlds.market.data.companies import Company, opening_cents, yearly_revenue
from turnwise.worlds.market.data.factors import market_factor, past_factor, sector_factor
from turnwise.worlds.market.data.past_sessions import past_sessions
from turnwise.worlds.market.data.statements import IncomeStatement, make_quarters
from turnwise.worlds.market.data.tables import rows
from turnwise.worlds.stream import Stream

SHARE_SCALES = (300, 1000, 3000)
"""Millions of shares, multiplied by one to three."""

CALM = 0.02
"""Fraction of the gap to its usual price that an instrument closes in one session."""

LEGAL_FORMS = re.compile(
    r",? (Inc\.?|Incorporated|Corporation|Corp\.?|Company|Co\.?|Limited|Ltd\.?|plc|PLC|N\.V\.|Holdings)$"
)


@dataclass(frozen=True, slots=True)
class Listing:
    """A real ticker. `company` has no products, city or founding year; a fund or index also has no CEO."""

    company: Company
    kind: str
    """One of company, fund, index, crypto, currency, future."""
    names: tuple[str, ...]
    """The full name first, then the other names that people use."""
    per_unit: int
    """Price units per dollar in its bars: 100 for cents."""
    course: Course
    accounts: Business | None
    """The line of business whose margins its invented statements use; None if it has no statements."""


class Listings:
    """Every real ticker of one world. Tables are read and figures generated on first use."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        # Cached on the instance, so that a world's figures are freed with the world.
        self.columns = functools.lru_cache(maxsize=256)(self._columns)
        self.past_columns = functools.lru_cache(maxsize=64)(self._past_columns)
        self.quarters = functools.lru_cache(maxsize=256)(self._quarters)

    def find(self, symbol: str) -> Listing | None:
        """Return the listing with this symbol in any usual spelling, such as BTC, BTC-USD or X:BTCUSD."""
        for spelling in _spellings(symbol):
            if (listing := self._by_spelling.get(spelling)) is not None:
                return listing
        return None

    def all(self) -> Sequence[Listing]:
        """Return companies first, then funds, indices and the rest, in the order of the tables."""
        return self._listings

    @functools.cached_property
    def _listings(self) -> Sequence[Listing]:
        return (*_companies(self._seed), *_instruments(self._seed))

    @functools.cached_property
    def _by_spelling(self) -> Mapping[str, Listing]:
        known: dict[str, Listing] = {}
        for listing in self._listings:
            # A symbol takes precedence over another listing's second name.
            known[listing.company.symbol] = listing
        for listing in self._listings:
            for name in listing.names[1:]:
                if listing.kind != "company" and name.isupper() and " " not in name:
                    known.setdefault(name, listing)
        return known

    def _columns(self, symbol: str) -> Sequence[int]:
        """Return the flat array for `SESSIONS`, in the format of an invented company's."""
        listing = self._by_spelling[symbol]
        sector = sector_factor(self._seed, listing.course.sector)
        stream = Stream(self._seed, "listed", symbol)
        return follow(stream, listing.course, market_factor(self._seed), sector)

    def _past_columns(self, symbol: str) -> Sequence[int]:
        """Return the flat array for `past_sessions()`, walked backwards from the start of `SESSIONS`."""
        listing = self._by_spelling[symbol]
        count = len(past_sessions())
        market = past_factor(self._seed, "market", count)
        sector = past_factor(self._seed, listing.course.sector, count)
        stream = Stream(self._seed, "listed before", symbol)
        walked = follow(stream, listing.course, market, sector)
        rows = zip(*(walked[column::5] for column in range(5)), strict=True)
        # The walk runs backwards in time: its open is the session's close, and its close the open.
        turned = [(close, high, low, opened, volume) for opened, high, low, close, volume in rows]
        return [value for row in reversed(turned) for value in row]

    def _quarters(self, symbol: str) -> Sequence[IncomeStatement]:
        listing = self._by_spelling[symbol]
        if listing.accounts is None:
            return ()
        return make_quarters(self._seed, listing.company, listing.accounts)


def _spellings(symbol: str) -> Iterator[str]:
    yield symbol
    # Polygon writes X:BTCUSD and I:SPX, Yahoo BTC-USD, EURUSD=X and ^SPX, people BRK.B and EUR/USD.
    plain = re.sub(r"^([XCI]:|\^)|=X$", "", symbol)
    yield plain
    yield f"^{plain}"
    yield re.sub(r"[./]", "-", plain)
    yield re.sub(r"[-/\u2010-\u2015]", "", plain)


def _companies(seed: int) -> Iterator[Listing]:
    industries = {row["industry"]: row for row in rows("industries.psv")}
    for row in rows("companies.psv"):
        industry = industries[row["industry"]]
        business = BUSINESS_OF[industry["accounts_like"]]
        symbol, stream = row["symbol"], Stream(seed, "listing", row["symbol"])
        # Whole thousands, so that cents × shares is a whole number of dollars everywhere.
        shares = int(stream.pick(SHARE_SCALES) * stream.between(1.0, 3.0) * 1000) * 1000
        revenue = yearly_revenue(seed, symbol, shares, business)
        company = _company(
            symbol=symbol,
            name=row["name"],
            sector=industry["sector"],
            industry=row["industry"],
            ceo=f"{stream.pick(FIRST_NAMES)} {stream.pick(LAST_NAMES)}",
            employees=max(40, int(revenue / stream.between(180_000, 620_000))),
            country=row["country"],
            exchange=row["exchange"],
            shares=shares,
            stream=stream,
        )
        course = Course(
            start=opening_cents(seed, symbol),
            beta=stream.between(0.5, 1.5),
            spread=stream.between(0.008, 0.026),
            typical_volume=shares * stream.between(0.003, 0.011),
            sector=industry["sector"],
        )
        yield Listing(company, "company", _names(row), 100, course, business)


def _instruments(seed: int) -> Iterator[Listing]:
    for row in rows("instruments.psv"):
        stream = Stream(seed, "listing", row["symbol"])
        is_fund = row["kind"] == "fund"
        shares = int(stream.between(50, 900) * 1000) * 1000 if is_fund else 0
        company = _company(
            symbol=row["symbol"],
            name=row["name"],
            sector="",
            industry="",
            ceo="",
            employees=0,
            country="United States" if is_fund else "",
            exchange=row["exchange"],
            shares=shares,
            stream=stream,
        )
        per_unit = 10 ** int(row["decimals"])
        usual = float(row["price"]) * per_unit
        course = Course(
            start=round(usual * stream.between(0.9, 1.1)),
            beta=float(row["beta"]),
            spread=float(row["spread"]),
            typical_volume=stream.between(2e6, 6e7),
            sector=row["sector"],
            usual=usual,
            pull=CALM,
        )
        yield Listing(company, row["kind"], _names(row), per_unit, course, None)


def _company(
    *,
    symbol: str,
    name: str,
    sector: str,
    industry: str,
    ceo: str,
    employees: int,
    country: str,
    exchange: str,
    shares: int,
    stream: Stream,
) -> Company:
    return Company(
        symbol=symbol,
        name=name,
        sector=sector,
        industry=industry,
        products=(),
        ceo=ceo,
        employees=employees,
        country=country,
        city="",
        founded=0,
        listed_on=date(stream.integer(1980, 2017), stream.integer(1, 12), stream.integer(1, 28)),
        exchange=exchange,
        shares=shares,
        # .example is a reserved domain, so no link of this world leads to a real site.
        website=f"https://{re.sub(r'[^a-z0-9]', '', symbol.lower())}.example",
        sic_code="",
        sic_description="",
        reporting_lag_days=stream.integer(18, 45),
    )


def _names(row: Mapping[str, str]) -> tuple[str, ...]:
    """Return the full name, the name without its legal form, and the table's other names."""
    short = row["name"]
    while (shorter := LEGAL_FORMS.sub("", short)) != short:
        short = shorter
    others = [name for name in row["also"].split(",") if name]
    return tuple(dict.fromkeys((row["name"], short, *others)))
