"""Polygon's tools over its REST API."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from turnwise.mcp.serve import ToolError, Unavailable
from turnwise.system.net.http_replies import error_message
from turnwise.worlds.market.live import arguments
from turnwise.worlds.market.live.http import Provider, ProviderCall, Query, path_part
from turnwise.worlds.market.live.shapes import Record, as_integer, pick, record, records, scalar

SOURCE = "Polygon"
NEW_YORK = ZoneInfo("America/New_York")
TIMESPANS = {"daily": "day", "hourly": "hour", "minute": "minute"}
MAX_BARS = 500
"""About 20,000 tokens: a longer answer would crowd out the conversation."""

MAX_BASE_BARS = 50_000
"""Polygon's own cap. It counts the minute bars behind hourly bars, so a lower limit would cut those short."""

MAX_ARTICLES = 50
DETAILS = (
    *("ticker", "name", "primary_exchange", "market_cap", "share_class_shares_outstanding", "sic_code"),
    *("sic_description", "homepage_url", "total_employees", "list_date", "currency_name"),
)
GOOD_STATUSES = frozenset({"OK", "DELAYED"})
"""DELAYED is valid data that is fifteen minutes old, which the cheaper plans get."""


class LivePolygon:
    """One method per polygon tool."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def polygon_get_aggs(
        self, ticker: str, start_date: str, end_date: str, frequency: str = "daily"
    ) -> Record:
        symbol = arguments.symbol(ticker, name="ticker")
        start = arguments.day(start_date, name="start_date")
        end = arguments.day(end_date, name="end_date")
        chosen = arguments.choice(frequency, name="frequency", among=tuple(TIMESPANS))
        if start > end:
            raise ToolError(f"start_date {start} is after end_date {end}")
        if start > self._provider.clock.now().astimezone(NEW_YORK).date():
            # Polygon answers future dates with 403, which would look like a bad key.
            raise ToolError(f"start_date {start} lies in the future")
        call = self._provider.call()
        path = f"v2/aggs/ticker/{path_part(symbol)}/range/1/{TIMESPANS[chosen]}/{start}/{end}"
        params: Query = {"adjusted": "true", "sort": "asc", "limit": MAX_BASE_BARS}
        payload = self._checked(await call.get(path, params, subject=f"ticker {symbol!r} with these dates"))
        rows = records(payload.get("results", []), source=SOURCE)
        if not rows:
            await self._details(call, symbol)
        bars = [_bar(row, is_daily=chosen == "daily") for row in rows[:MAX_BARS]]
        answer = {"ticker": symbol, "frequency": chosen, "resultsCount": len(bars), "results": bars}
        is_truncated = len(rows) > MAX_BARS or bool(payload.get("next_url"))
        return answer | ({"truncated": True} if is_truncated else {})

    async def polygon_get_news(self, ticker: str, limit: int = 10) -> list[Record]:
        symbol = arguments.symbol(ticker, name="ticker")
        num = arguments.count(limit, name="limit", most=MAX_ARTICLES)
        call = self._provider.call()
        params: Query = {"ticker": symbol, "limit": num, "order": "desc", "sort": "published_utc"}
        payload = self._checked(await call.get("v2/reference/news", params, subject=f"ticker {symbol!r}"))
        rows = records(payload.get("results", []), source=SOURCE)
        if not rows:
            await self._details(call, symbol)
        return [_article(row, symbol) for row in rows[:num]]

    async def polygon_get_ticker_details(self, ticker: str) -> Record:
        symbol = arguments.symbol(ticker, name="ticker")
        details = await self._details(self._provider.call(), symbol)
        return pick(details, DETAILS, source=SOURCE, required=("ticker", "name"))

    async def polygon_get_market_status(self) -> Record:
        payload = self._checked(await self._provider.call().get("v1/marketstatus/now"))
        status = pick(payload, ("market", "serverTime"), source=SOURCE, required=("market", "serverTime"))
        exchanges = record(payload.get("exchanges"), source=SOURCE)
        status["exchanges"] = pick(exchanges, ("nasdaq", "nyse", "otc"), source=SOURCE)
        return status | pick(payload, ("earlyHours", "afterHours"), source=SOURCE)

    async def polygon_get_previous_close(self, ticker: str) -> Record:
        symbol = arguments.symbol(ticker, name="ticker")
        path = f"v2/aggs/ticker/{path_part(symbol)}/prev"
        payload = self._checked(
            await self._provider.call().get(path, {"adjusted": "true"}, subject=f"ticker {symbol!r}")
        )
        rows = records(payload.get("results", []), source=SOURCE)
        if not rows:
            raise ToolError(f"Polygon has no previous session for {symbol!r}: is it the right ticker?")
        bar = _bar(rows[0], is_daily=True)
        return {"ticker": symbol, "date": bar.pop("t")} | bar

    async def _details(self, call: ProviderCall, symbol: str) -> Record:
        """Return the reference record; ToolError if the ticker is unknown.

        An answer without bars or news may mean a quiet week or an unknown ticker: this tells which.
        """
        path = f"v3/reference/tickers/{path_part(symbol)}"
        payload = self._checked(await call.get(path, subject=f"ticker {symbol!r}"))
        return record(payload.get("results"), source=SOURCE)

    def _checked(self, payload: Any) -> Record:
        """Return the answer; raise if Polygon marks it as an error despite status 200."""
        answer = record(payload, source=SOURCE)
        status = answer.get("status", "OK")
        if status not in GOOD_STATUSES:
            reason = error_message(answer, self._provider.account.key) or "no reason given"
            if status == "NOT_FOUND":
                raise ToolError(f"{SOURCE}: {reason}")
            raise Unavailable(f"{SOURCE} refused: {reason}")
        return answer


def _bar(row: Record, *, is_daily: bool) -> dict[str, Any]:
    """Return a bar with its start in New York time, where a daily bar starts at midnight of its own date."""
    fields = pick(row, ("o", "h", "l", "c", "v"), source=SOURCE, required=("o", "h", "l", "c"))
    fields["v"] = as_integer(fields["v"])
    return {"t": _moment(row.get("t"), is_daily=is_daily)} | fields


def _moment(milliseconds: Any, *, is_daily: bool) -> str:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        raise Unavailable(f"{SOURCE} answered with a bar that has no time")
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone(NEW_YORK)
    except (ValueError, OverflowError, OSError) as error:
        raise Unavailable(f"{SOURCE} answered with a bar at an impossible time") from error
    return moment.date().isoformat() if is_daily else moment.isoformat()


def _article(row: Record, symbol: str) -> Record:
    publisher = record(row.get("publisher") or {}, source=SOURCE)
    tickers = row.get("tickers") or []
    insights = records(row.get("insights") or [], source=SOURCE)
    if not isinstance(tickers, list):
        raise Unavailable(f"{SOURCE} answered with an article whose tickers are no list")
    sentiments = (insight.get("sentiment") for insight in insights if insight.get("ticker") == symbol)
    article = pick(row, ("title", "published_utc"), source=SOURCE, required=("title",))
    article["publisher"] = scalar(publisher.get("name"), source=SOURCE)
    article["tickers"] = [scalar(ticker, source=SOURCE) for ticker in tickers]
    article |= pick(row, ("description", "article_url"), source=SOURCE)
    return article | {"sentiment": scalar(next(sentiments, None), source=SOURCE)}
