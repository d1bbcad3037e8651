"""Financial Modeling Prep's tools over its stable API."""

import re
from typing import Any

from turnwise.mcp.serve import ToolError, Unavailable
from turnwise.system.net.http_replies import error_message
from turnwise.worlds.market.live import arguments
from turnwise.worlds.market.live.http import Provider, ProviderCall
from turnwise.worlds.market.live.shapes import Record, as_integer, pick, records, scalar

SOURCE = "FMP"
MAX_ROWS = 50

QUOTE = ("symbol", "name", "price", "change", "changePercentage", "dayLow", "dayHigh", "volume", "marketCap")
PROFILE = (
    *("symbol", "companyName", "sector", "industry", "ceo", "fullTimeEmployees", "country", "exchange"),
    *("marketCap", "website", "description"),
)
STATEMENT = (
    *("date", "symbol", "period", "fiscalYear", "revenue", "costOfRevenue", "grossProfit"),
    *("operatingExpenses", "operatingIncome", "netIncome", "eps"),
)
MOVER = ("symbol", "name", "price", "change", "changesPercentage")
LISTING = ("symbol", "name", "currency", "exchange")
ARTICLE = ("symbol", "publishedDate", "publisher", "title", "text", "url")

NOT_IN_PLAN = frozenset({402, 403, 404})
"""The statuses that FMP sends for an endpoint or symbol that the plan does not include."""

TICKER_LIKE = re.compile(r"[A-Za-z0-9.^-]{1,6}")


class LiveFmp:
    """One method per fmp tool."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    async def fmp_get_quote(self, symbol: str) -> Record:
        call = self._provider.call()
        quote = await self._quote(call, symbol)
        answer = pick(quote, QUOTE, source=SOURCE, required=("symbol", "price"))
        answer["pe"] = await self._price_to_earnings(call, quote)
        return answer | pick(quote, ("previousClose", "timestamp"), source=SOURCE)

    async def fmp_get_company_profile(self, symbol: str) -> Record:
        ticker = arguments.symbol(symbol, name="symbol")
        rows = await self._rows(self._provider.call(), "profile", {"symbol": ticker}, about=ticker)
        profile = pick(_first(rows, ticker), PROFILE, source=SOURCE, required=("symbol", "companyName"))
        return profile | {"fullTimeEmployees": as_integer(profile["fullTimeEmployees"])}

    async def fmp_get_income_statement(
        self, symbol: str, period: str = "annual", limit: int = 2
    ) -> list[Record]:
        ticker = arguments.symbol(symbol, name="symbol")
        is_annual = arguments.choice(period, name="period", among=("annual", "quarterly")) == "annual"
        num = arguments.count(limit, name="limit", most=MAX_ROWS)
        params = {"symbol": ticker, "period": "annual" if is_annual else "quarter", "limit": num}
        rows = await self._rows(self._provider.call(), "income-statement", params, about=ticker)
        _first(rows, ticker)
        statements: list[Record] = [
            pick(row, STATEMENT, source=SOURCE, required=("date", "revenue")) for row in rows
        ]
        statements.sort(key=lambda statement: str(statement["date"]), reverse=True)
        return statements[:num]

    async def fmp_get_market_gainers(self, limit: int = 10) -> list[Record]:
        return await self._movers("biggest-gainers", limit)

    async def fmp_get_market_losers(self, limit: int = 10) -> list[Record]:
        return await self._movers("biggest-losers", limit)

    async def fmp_search_ticker(self, query: str, limit: int = 10) -> list[Record]:
        wanted = arguments.text(query, name="query", most=100).strip()
        num = arguments.count(limit, name="limit", most=MAX_ROWS)
        call, listings = self._provider.call(), dict[str, Record]()
        # FMP searches symbols and names separately; a long query cannot be a symbol, which saves a request.
        paths = ("search-symbol", "search-name") if TICKER_LIKE.fullmatch(wanted) else ("search-name",)
        for path in paths:
            if len(listings) < num:
                for row in await self._rows(call, path, {"query": wanted, "limit": num}, about=wanted):
                    listing = pick(row, LISTING, source=SOURCE, required=("symbol",))
                    listings.setdefault(str(listing["symbol"]), listing)
        return list(listings.values())[:num]

    async def fmp_get_stock_news(self, tickers: str | None = None, limit: int = 10) -> list[Record]:
        num = arguments.count(limit, name="limit", most=MAX_ROWS)
        call = self._provider.call()
        if tickers is None or not tickers:
            rows = await self._rows(call, "news/stock-latest", {"page": 0, "limit": num})
        else:
            asked = ",".join(arguments.symbols(tickers, name="tickers"))
            rows = await self._rows(call, "news/stock", {"symbols": asked, "limit": num}, about=asked)
            _first(rows, asked)
        return [pick(row, ARTICLE, source=SOURCE, required=("title",)) for row in rows[:num]]

    async def fmp_get_change_percent(self, symbol: str) -> Record:
        return await self._from_quote(symbol, "changePercentage")

    async def fmp_get_previous_close(self, symbol: str) -> Record:
        return await self._from_quote(symbol, "previousClose")

    async def _from_quote(self, symbol: str, key: str) -> Record:
        quote = await self._quote(self._provider.call(), symbol)
        return pick(quote, ("symbol", key), source=SOURCE, required=("symbol", key))

    async def _quote(self, call: ProviderCall, symbol: str) -> Record:
        ticker = arguments.symbol(symbol, name="symbol")
        return _first(await self._rows(call, "quote", {"symbol": ticker}, about=ticker), ticker)

    async def _price_to_earnings(self, call: ProviderCall, quote: Record) -> Any:
        """Return the P/E, by one more request if the quote lacks it; None if the plan has no ratios."""
        if quote.get("pe") is not None:
            return scalar(quote["pe"], source=SOURCE)
        payload = await call.get("ratios-ttm", {"symbol": str(quote["symbol"])}, absent=NOT_IN_PLAN)
        rows = [] if payload is None else self._checked(payload)
        return scalar(rows[0].get("priceToEarningsRatioTTM"), source=SOURCE) if rows else None

    async def _movers(self, path: str, limit: int) -> list[Record]:
        num = arguments.count(limit, name="limit", most=MAX_ROWS)
        rows = await self._rows(self._provider.call(), path, {})
        return [pick(row, MOVER, source=SOURCE, required=("symbol", "price")) for row in rows[:num]]

    async def _rows(
        self, call: ProviderCall, path: str, params: dict[str, str | int], *, about: str = ""
    ) -> list[Record]:
        return self._checked(await call.get(path, params, subject=f"{about!a}" if about else ""))

    def _checked(self, payload: Any) -> list[Record]:
        """Return the rows; FMP sends some refusals with status 200, as an object instead of a list."""
        if isinstance(payload, dict) and "Error Message" in payload:
            raise Unavailable(f"{SOURCE} refused: {error_message(payload, self._provider.account.key)}")
        return records(payload, source=SOURCE)


def _first(rows: list[Record], asked: str) -> Record:
    """Return the first row; ToolError if there is none, which is how FMP answers an unknown symbol."""
    if not rows:
        raise ToolError(f"FMP has nothing for {asked!r}: look the symbol up with fmp_search_ticker")
    return rows[0]
