"""The market's derived facts: quotes, movers, statements and hours."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from turnwise.worlds.market.data.bars import COLUMNS, Bar, bar_at, make_daily, split_day, split_hour
from turnwise.worlds.market.data.businesses import BUSINESS_OF
from turnwise.worlds.market.data.companies import Company, make_companies
from turnwise.worlds.market.data.listings import Listing, Listings
from turnwise.worlds.market.data.past_sessions import past_sessions
from turnwise.worlds.market.data.sessions import HOURLY_SESSIONS, LAST_SESSION, MINUTE_SESSIONS, SESSIONS
from turnwise.worlds.market.data.statements import IncomeStatement, make_quarters, years_of

INDEX_OF = {day: index for index, day in enumerate(SESSIONS)}

SESSIONS_WITH: Mapping[str, Sequence[date]] = {
    "daily": SESSIONS,
    "hourly": HOURLY_SESSIONS,
    "minute": MINUTE_SESSIONS,
}
"""Frequency → the sessions for which an invented company has bars."""


@functools.cache
def _past_index() -> Mapping[date, int]:
    return {day: index for index, day in enumerate(past_sessions())}


@dataclass(frozen=True, slots=True)
class Quote:
    """A session as the quote tools show it; changes are relative to the previous session."""

    symbol: str
    name: str
    session: date
    price: float
    change: float
    change_percent: float
    day_low: float
    day_high: float
    volume: int
    market_cap: int
    pe: float | None
    """Price over the last four quarters' earnings per share; None unless these are positive."""
    previous_close: float


class Market:
    """The facts of one world. Symbols are upper case; an unknown one raises KeyError.

    Its own companies are invented. Real listings are found by symbol only: no list or ranking has them.
    """

    def __init__(
        self,
        seed: int,
        companies: Sequence[Company],
        columns: Mapping[str, Sequence[int]],
        quarters: Mapping[str, Sequence[IncomeStatement]],
    ) -> None:
        self.seed = seed
        self.listings = Listings(seed)
        self._companies = tuple(companies)
        self._by_symbol = {company.symbol: company for company in companies}
        self._columns = columns
        self._quarters = quarters
        # Cached on the instance, so that a world's bars are freed with the world.
        self.hourly_bars = functools.lru_cache(maxsize=2048)(self._hourly_bars)
        self.quotes = functools.lru_cache(maxsize=32)(self._quotes)
        self.minute_bars = functools.lru_cache(maxsize=128)(self._minute_bars)

    def companies(self) -> Sequence[Company]:
        """Return all invented companies, sorted by symbol."""
        return self._companies

    def company(self, symbol: str) -> Company:
        listing = self.listing(symbol)
        return listing.company if listing else self._by_symbol[symbol]

    def is_listed(self, symbol: str) -> bool:
        return symbol in self._by_symbol or self.listing(symbol) is not None

    def listing(self, symbol: str) -> Listing | None:
        """Return the real listing with this symbol; None if there is none or an invented company has it."""
        return None if symbol in self._by_symbol else self.listings.find(symbol)

    def sessions(self, symbol: str, frequency: str) -> Sequence[date]:
        """Return the sessions with bars of a frequency (daily, hourly, minute), oldest first."""
        if symbol in self._by_symbol:
            return SESSIONS_WITH[frequency]
        return (*past_sessions(), *SESSIONS)

    def daily_bars(self, symbol: str) -> Sequence[Bar]:
        """Return one bar for each of `SESSIONS`, oldest first."""
        return [self.daily_bar(symbol, day) for day in SESSIONS]

    def daily_bar(self, symbol: str, day: date) -> Bar:
        listing = self.listing(symbol)
        if listing is None or day in INDEX_OF:
            return bar_at(self.columns(symbol), INDEX_OF[day], day, listing.per_unit if listing else 100)
        return bar_at(self.listings.past_columns(symbol), _past_index()[day], day, listing.per_unit)

    def columns(self, symbol: str) -> Sequence[int]:
        """Return open, high, low, close (cents or finer) and volume of each of `SESSIONS` as a flat array."""
        return self._columns[symbol] if symbol in self._by_symbol else self.listings.columns(symbol)

    def close_cents(self, symbol: str) -> Sequence[int]:
        """Return the closing price of each of `SESSIONS`, oldest first."""
        return self.columns(symbol)[3::COLUMNS]

    def _hourly_bars(self, symbol: str, day: date) -> Sequence[Bar]:
        """Return the seven hourly bars of a session, which aggregate to its daily bar."""
        return split_day(self.seed, symbol, self.daily_bar(symbol, day))

    def _minute_bars(self, symbol: str, day: date) -> Sequence[Bar]:
        """Return the 390 minute bars of a session, which aggregate to its hourly bars."""
        hours = self.hourly_bars(symbol, day)
        return [minute for hour in hours for minute in split_hour(self.seed, symbol, hour)]

    def quote(self, symbol: str, day: date = LAST_SESSION) -> Quote:
        """Return the quote after the close of a session, except the first, which has no previous close."""
        company = self.company(symbol)
        bar = self.daily_bar(symbol, day)
        before = self.close_cents(symbol)[INDEX_OF[day] - 1]
        earned = self.trailing_eps_cents(symbol)
        return Quote(
            symbol=symbol,
            name=company.name,
            session=day,
            price=bar.close,
            change=(bar.close_cents - before) / bar.per_unit,
            change_percent=percent(before, bar.close_cents),
            day_low=bar.low,
            day_high=bar.high,
            volume=bar.volume,
            market_cap=bar.close_cents * company.shares // bar.per_unit,
            pe=round(bar.close_cents / earned, 2) if earned > 0 else None,
            previous_close=before / bar.per_unit,
        )

    def _quotes(self, day: date = LAST_SESSION) -> Sequence[Quote]:
        """Return every invented company's quote after a session, sorted by symbol."""
        return [self.quote(company.symbol, day) for company in self._companies]

    def gainers(self, day: date = LAST_SESSION) -> Sequence[Quote]:
        """Return the quotes of shares that rose, largest change first; ties are sorted by symbol."""
        rising = [quote for quote in self.quotes(day) if quote.change > 0]
        return sorted(rising, key=lambda quote: (-quote.change_percent, quote.symbol))

    def losers(self, day: date = LAST_SESSION) -> Sequence[Quote]:
        """Return the quotes of shares that fell, largest change first; ties are sorted by symbol."""
        falling = [quote for quote in self.quotes(day) if quote.change < 0]
        return sorted(falling, key=lambda quote: (quote.change_percent, quote.symbol))

    def quarters(self, symbol: str) -> Sequence[IncomeStatement]:
        """Return quarterly statements, newest first; none if the listing is not a company."""
        return tuple(reversed(self._oldest_first(symbol)))

    def years(self, symbol: str) -> Sequence[IncomeStatement]:
        """Return annual statements, newest first."""
        return tuple(reversed(years_of(self._oldest_first(symbol))))

    def trailing_eps_cents(self, symbol: str) -> int:
        """Return the earnings per share of the last four reported quarters."""
        return sum(quarter.eps_cents for quarter in self._oldest_first(symbol)[-4:])

    def _oldest_first(self, symbol: str) -> Sequence[IncomeStatement]:
        return self._quarters[symbol] if symbol in self._by_symbol else self.listings.quarters(symbol)


def make_market(seed: int) -> Market:
    """Generate all facts of the world with this seed."""
    companies = make_companies(seed)
    quarters = {
        company.symbol: make_quarters(seed, company, BUSINESS_OF[company.industry]) for company in companies
    }
    return Market(seed, companies, make_daily(seed, companies), quarters)


def percent(before: int, after: int) -> float:
    """Return the change from one value to another in per cent, to two decimals."""
    return round(100 * (after - before) / before, 2)
