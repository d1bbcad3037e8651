"""Polygon's tools over the embedded world."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any

from turnwise.mcp.serve import ToolError
from turnwise.worlds.market.data.bars import Bar
from turnwise.worlds.market.data.market import SESSIONS_WITH
from turnwise.worlds.market.data.past_sessions import new_york_on
from turnwise.worlds.market.data.sessions import PREVIOUS_SESSION, market_status
from turnwise.worlds.market.tools.arguments import read_choice, read_company, read_date, read_limit
from turnwise.worlds.market.world import World

Row = Mapping[str, Any]

MAX_BARS = 500
"""The most bars in one answer: about two years of days, or one day of minutes."""

EXCHANGE_CODES = {"NASDAQ": "XNAS", "NYSE": "XNYS", "AMEX": "ARCX"}


class EmbeddedPolygon:
    """Polygon's tools; each method implements the tool of the same name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._market = world.market

    async def polygon_get_aggs(
        self, ticker: object, start_date: object, end_date: object, frequency: object
    ) -> Row:
        company = read_company(self._market, ticker, "ticker")
        chosen = read_choice(frequency, "frequency", tuple(SESSIONS_WITH))
        start, end = read_date(start_date, "start_date"), read_date(end_date, "end_date")
        days = _days(start, end, chosen, self._market.sessions(company.symbol, chosen))
        # One more than is shown, to know whether the answer is truncated; later bars are not computed.
        bars = list(islice(self._bars(company.symbol, days, chosen), MAX_BARS + 1))
        shown = bars[:MAX_BARS]
        answer = {
            "ticker": company.symbol,
            "frequency": chosen,
            "resultsCount": len(shown),
            "results": [_bar(bar, is_daily=chosen == "daily") for bar in shown],
        }
        return {**answer, "truncated": True} if len(bars) > MAX_BARS else answer

    async def polygon_get_news(self, ticker: object, limit: object) -> list[Row]:
        company = read_company(self._market, ticker, "ticker")
        return [
            {
                "title": article.title,
                "published_utc": article.published_utc,
                "publisher": article.publisher,
                "tickers": list(article.tickers),
                "description": article.text,
                "article_url": article.url,
                "sentiment": article.sentiment,
            }
            for article in self._world.news([company.symbol])[: read_limit(limit)]
        ]

    async def polygon_get_ticker_details(self, ticker: object) -> Row:
        company = read_company(self._market, ticker, "ticker")
        return {
            "ticker": company.symbol,
            "name": company.name,
            "primary_exchange": EXCHANGE_CODES.get(company.exchange),
            "market_cap": self._market.quote(company.symbol).market_cap or None,
            "share_class_shares_outstanding": company.shares or None,
            "sic_code": company.sic_code or None,
            "sic_description": company.sic_description or None,
            "homepage_url": company.website,
            "total_employees": company.employees or None,
            "list_date": company.listed_on.isoformat(),
            "currency_name": "usd",
        }

    async def polygon_get_market_status(self) -> Row:
        status = market_status()
        return {
            "market": status.market,
            "serverTime": status.server_time.isoformat(),
            "exchanges": dict(status.exchanges),
            "earlyHours": status.is_early_hours,
            "afterHours": status.is_after_hours,
        }

    async def polygon_get_previous_close(self, ticker: object) -> Row:
        company = read_company(self._market, ticker, "ticker")
        bar = self._market.daily_bar(company.symbol, PREVIOUS_SESSION)
        prices = {key: value for key, value in _bar(bar, is_daily=True).items() if key != "t"}
        return {"ticker": company.symbol, "date": PREVIOUS_SESSION.isoformat(), **prices}

    def _bars(self, symbol: str, days: Sequence[date], frequency: str) -> Iterator[Bar]:
        intraday: Mapping[str, Callable[[str, date], Sequence[Bar]]] = {
            "hourly": self._market.hourly_bars,
            "minute": self._market.minute_bars,
        }
        if frequency == "daily":
            return (self._market.daily_bar(symbol, day) for day in days)
        return (bar for day in days for bar in intraday[frequency](symbol, day))


def _days(start: date, end: date, frequency: str, known: Sequence[date]) -> list[date]:
    """Return the sessions in a range, none for a weekend; ToolError if it lies wholly outside the data."""
    if start > end:
        raise ToolError(f"start_date {start} is after end_date {end}; swap them")
    if end < known[0] or start > known[-1]:
        raise ToolError(
            f"no {frequency} bars between {start} and {end}; they run from {known[0]} to {known[-1]}"
        )
    return [day for day in known if start <= day <= end]


def _bar(bar: Bar, *, is_daily: bool) -> Row:
    start = bar.day.isoformat() if is_daily else bar.start.replace(tzinfo=new_york_on(bar.day)).isoformat()
    return {"t": start, "o": bar.open, "h": bar.high, "l": bar.low, "c": bar.close, "v": bar.volume}
