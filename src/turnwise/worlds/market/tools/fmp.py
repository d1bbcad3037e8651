"""Financial Modeling Prep's tools over the embedded world."""

from collections.abc import Mapping
from typing import Any

from turnwise.mcp.serve import ToolError
from turnwise.worlds.market.data.listed_names import find_companies
from turnwise.worlds.market.data.market import Quote
from turnwise.worlds.market.data.sessions import CLOSE
from turnwise.worlds.market.data.statements import IncomeStatement
from turnwise.worlds.market.tools.arguments import (
    MAX_LISTED,
    read_choice,
    read_company,
    read_limit,
    read_text,
)
from turnwise.worlds.market.web.news import Article
from turnwise.worlds.market.world import World

Row = Mapping[str, Any]


class EmbeddedFmp:
    """Financial Modeling Prep's tools; each method implements the tool of the same name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._market = world.market

    async def fmp_get_quote(self, symbol: object) -> Row:
        quote = self._market.quote(read_company(self._market, symbol).symbol)
        return {
            "symbol": quote.symbol,
            "name": quote.name,
            "price": quote.price,
            "change": quote.change,
            "changePercentage": quote.change_percent,
            "dayLow": quote.day_low,
            "dayHigh": quote.day_high,
            "volume": quote.volume,
            "marketCap": quote.market_cap or None,
            "pe": quote.pe,
            "previousClose": quote.previous_close,
            "timestamp": int(CLOSE.timestamp()),
        }

    async def fmp_get_company_profile(self, symbol: object) -> Row:
        company = read_company(self._market, symbol)
        return {
            "symbol": company.symbol,
            "companyName": company.name,
            # Empty becomes null: a fund has no sector, an index no country, a currency pair no market cap.
            "sector": company.sector or None,
            "industry": company.industry or None,
            "ceo": company.ceo or None,
            "fullTimeEmployees": company.employees or None,
            "country": company.country or None,
            "exchange": company.exchange,
            "marketCap": self._market.quote(company.symbol).market_cap or None,
            "website": company.website,
            "description": company.description,
        }

    async def fmp_get_income_statement(self, symbol: object, period: object, limit: object) -> list[Row]:
        company = read_company(self._market, symbol)
        is_annual = read_choice(period, "period", ("annual", "quarterly")) == "annual"
        statements = self._market.years if is_annual else self._market.quarters
        chosen = statements(company.symbol)
        if not chosen:
            raise ToolError(f"{company.symbol} ({company.name}) is no company: it has no income statements")
        return [_statement(statement) for statement in chosen[: read_limit(limit)]]

    async def fmp_get_market_gainers(self, limit: object) -> list[Row]:
        return [_mover(quote) for quote in self._market.gainers()[: read_limit(limit)]]

    async def fmp_get_market_losers(self, limit: object) -> list[Row]:
        return [_mover(quote) for quote in self._market.losers()[: read_limit(limit)]]

    async def fmp_search_ticker(self, query: object, limit: object) -> list[Row]:
        count = read_limit(limit)
        companies = find_companies(self._market, read_text(query, "query"))
        return [
            {"symbol": company.symbol, "name": company.name, "currency": "USD", "exchange": company.exchange}
            for company in companies[:count]
        ]

    async def fmp_get_stock_news(self, limit: object, tickers: object = None) -> list[Row]:
        count = read_limit(limit)
        symbols: list[str] = []
        if tickers is not None and tickers != "":
            names = [part for part in read_text(tickers, "tickers").split(",") if part.strip()]
            symbols = [read_company(self._market, part, "tickers").symbol for part in names[:MAX_LISTED]]
        return [_story(article) for article in self._world.news(symbols)[:count]]

    async def fmp_get_change_percent(self, symbol: object) -> Row:
        quote = self._market.quote(read_company(self._market, symbol).symbol)
        return {"symbol": quote.symbol, "changePercentage": quote.change_percent}

    async def fmp_get_previous_close(self, symbol: object) -> Row:
        quote = self._market.quote(read_company(self._market, symbol).symbol)
        return {"symbol": quote.symbol, "previousClose": quote.previous_close}


def _statement(statement: IncomeStatement) -> Row:
    return {
        "date": statement.ends_on.isoformat(),
        "symbol": statement.symbol,
        "period": statement.period,
        "fiscalYear": str(statement.fiscal_year),
        "revenue": statement.revenue,
        "costOfRevenue": statement.cost_of_revenue,
        "grossProfit": statement.gross_profit,
        "operatingExpenses": statement.operating_expenses,
        "operatingIncome": statement.operating_income,
        "netIncome": statement.net_income,
        "eps": statement.eps,
    }


def _mover(quote: Quote) -> Row:
    return {
        "symbol": quote.symbol,
        "name": quote.name,
        "price": quote.price,
        "change": quote.change,
        "changesPercentage": quote.change_percent,
    }


def _story(article: Article) -> Row:
    return {
        "symbol": article.tickers[0],
        "publishedDate": article.published.strftime("%Y-%m-%d %H:%M:%S"),
        "publisher": article.publisher,
        "title": article.title,
        "text": article.text,
        "url": article.url,
    }
