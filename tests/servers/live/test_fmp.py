"""FMP's live backend against a server that answers as the stable API is documented to."""

import pytest

from tests.servers.live.play import KEY, ask
from tests.servers.provider import Answer, LoopbackProvider
from turnwise.mcp.serve import ToolError, Unavailable

QUOTE = {
    "symbol": "AAPL",
    "name": "Apple Inc.",
    "price": 232.8,
    "changePercentage": 2.1008,
    "change": 4.79,
    "volume": 44489128,
    "dayLow": 226.65,
    "dayHigh": 233.13,
    "yearHigh": 260.1,
    "yearLow": 164.08,
    "marketCap": 3500823120000,
    "priceAvg50": 240.2278,
    "priceAvg200": 219.98755,
    "exchange": "NASDAQ",
    "open": 227.2,
    "previousClose": 228.01,
    "timestamp": 1738702801,
}
PROFILE = {
    "symbol": "AAPL",
    "price": 232.8,
    "marketCap": 3500823120000,
    "beta": 1.24,
    "companyName": "Apple Inc.",
    "currency": "USD",
    "exchangeFullName": "NASDAQ Global Select",
    "exchange": "NASDAQ",
    "industry": "Consumer Electronics",
    "website": "https://www.apple.com",
    "description": "Apple Inc. designs phones and computers.",
    "ceo": "Mr. Timothy D. Cook",
    "sector": "Technology",
    "country": "US",
    "fullTimeEmployees": "164000",
    "ipoDate": "1980-12-12",
    "isEtf": False,
}


def statement(date: str, year: str, period: str = "FY") -> dict[str, object]:
    return {
        "date": date,
        "symbol": "AAPL",
        "reportedCurrency": "USD",
        "filingDate": "2024-11-01",
        "fiscalYear": year,
        "period": period,
        "revenue": 391035000000,
        "costOfRevenue": 210352000000,
        "grossProfit": 180683000000,
        "researchAndDevelopmentExpenses": 31370000000,
        "operatingExpenses": 57467000000,
        "operatingIncome": 123216000000,
        "netIncome": 93736000000,
        "eps": 6.11,
        "epsDiluted": 6.08,
    }


def mover(symbol: str, percent: float) -> dict[str, object]:
    return {
        "symbol": symbol,
        "price": 1.5,
        "name": f"{symbol} Inc.",
        "change": 0.3,
        "changesPercentage": percent,
        "exchange": "NASDAQ",
    }


def article(title: str) -> dict[str, str]:
    return {
        "symbol": "AAPL",
        "publishedDate": "2025-02-03 21:05:14",
        "publisher": "CNBC",
        "title": title,
        "image": "https://images.example/1.jpg",
        "site": "cnbc.com",
        "text": "Shares rose.",
        "url": "https://www.cnbc.com/1",
    }


def listing(symbol: str, name: str) -> dict[str, str]:
    return {
        "symbol": symbol,
        "name": name,
        "currency": "USD",
        "exchangeFullName": "NASDAQ Global Select",
        "exchange": "NASDAQ",
    }


def test_a_quote_takes_its_price_to_earnings_from_the_ratios(provider: LoopbackProvider) -> None:
    provider.play("quote", Answer([QUOTE]))
    provider.play("ratios-ttm", Answer([{"symbol": "AAPL", "priceToEarningsRatioTTM": 36.4}]))
    assert ask(provider, "fmp_get_quote", {"symbol": " aapl "}) == {
        "symbol": "AAPL",
        "name": "Apple Inc.",
        "price": 232.8,
        "change": 4.79,
        "changePercentage": 2.1008,
        "dayLow": 226.65,
        "dayHigh": 233.13,
        "volume": 44489128,
        "marketCap": 3500823120000,
        "pe": 36.4,
        "previousClose": 228.01,
        "timestamp": 1738702801,
    }
    assert [seen.query for seen in provider.requests] == [{"symbol": "AAPL"}, {"symbol": "AAPL"}]


def test_a_quote_that_has_its_price_to_earnings_costs_one_request(provider: LoopbackProvider) -> None:
    provider.play("quote", Answer([QUOTE | {"pe": 35.0}]))
    assert ask(provider, "fmp_get_quote", {"symbol": "AAPL"})["pe"] == 35.0
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "ratios", [Answer({"Error Message": "Premium"}, 402), Answer([]), Answer([{"symbol": "AAPL"}])]
)
def test_price_to_earnings_is_null_where_the_plan_has_no_ratios(
    provider: LoopbackProvider, ratios: Answer
) -> None:
    provider.play("quote", Answer([QUOTE]))
    provider.play("ratios-ttm", ratios)
    assert ask(provider, "fmp_get_quote", {"symbol": "AAPL"})["pe"] is None


@pytest.mark.parametrize("status", [400, 401, 503])
def test_price_to_earnings_is_never_null_because_of_a_fault(provider: LoopbackProvider, status: int) -> None:
    provider.play("quote", Answer([QUOTE]))
    provider.play("ratios-ttm", Answer({"Error Message": "no"}, status))
    with pytest.raises(Unavailable, match=str(status)):
        ask(provider, "fmp_get_quote", {"symbol": "AAPL"})


def test_a_profile_counts_employees_as_a_number(provider: LoopbackProvider) -> None:
    provider.play("profile", Answer([PROFILE]))
    assert ask(provider, "fmp_get_company_profile", {"symbol": "AAPL"}) == {
        "symbol": "AAPL",
        "companyName": "Apple Inc.",
        "sector": "Technology",
        "industry": "Consumer Electronics",
        "ceo": "Mr. Timothy D. Cook",
        "fullTimeEmployees": 164000,
        "country": "US",
        "exchange": "NASDAQ",
        "marketCap": 3500823120000,
        "website": "https://www.apple.com",
        "description": "Apple Inc. designs phones and computers.",
    }


def test_income_statements_come_newest_first(provider: LoopbackProvider) -> None:
    old, new = statement("2023-09-30", "2023"), statement("2024-09-28", "2024")
    provider.play("income-statement", Answer([old, new]))
    answer = ask(provider, "fmp_get_income_statement", {"symbol": "AAPL"})
    assert [row["date"] for row in answer] == ["2024-09-28", "2023-09-30"]
    assert answer[0] == {
        "date": "2024-09-28",
        "symbol": "AAPL",
        "period": "FY",
        "fiscalYear": "2024",
        "revenue": 391035000000,
        "costOfRevenue": 210352000000,
        "grossProfit": 180683000000,
        "operatingExpenses": 57467000000,
        "operatingIncome": 123216000000,
        "netIncome": 93736000000,
        "eps": 6.11,
    }
    assert provider.requests[0].query == {"symbol": "AAPL", "period": "annual", "limit": "2"}


def test_quarterly_is_asked_for_in_the_providers_word(provider: LoopbackProvider) -> None:
    provider.play("income-statement", Answer([statement("2024-09-28", "2024", "Q4")]))
    ask(provider, "fmp_get_income_statement", {"symbol": "AAPL", "period": "quarterly", "limit": 1})
    assert provider.requests[0].query["period"] == "quarter"


@pytest.mark.parametrize(
    ("tool", "path"),
    [("fmp_get_market_gainers", "biggest-gainers"), ("fmp_get_market_losers", "biggest-losers")],
)
def test_movers_are_cut_to_the_limit(provider: LoopbackProvider, tool: str, path: str) -> None:
    provider.play(path, Answer([mover("AAA", 88.3), mover("BBB", 50.0), mover("CCC", 20.0)]))
    first = {"symbol": "AAA", "name": "AAA Inc.", "price": 1.5, "change": 0.3, "changesPercentage": 88.3}
    answer = ask(provider, tool, {"limit": 2})
    assert answer[0] == first
    assert [row["symbol"] for row in answer] == ["AAA", "BBB"]


def test_a_short_query_searches_symbols_and_names_without_doubles(provider: LoopbackProvider) -> None:
    provider.play("search-symbol", Answer([listing("AAPL", "Apple Inc.")]))
    provider.play(
        "search-name", Answer([listing("AAPL", "Apple Inc."), listing("APLE", "Apple Hospitality")])
    )
    assert ask(provider, "fmp_search_ticker", {"query": "apple"}) == [
        {"symbol": "AAPL", "name": "Apple Inc.", "currency": "USD", "exchange": "NASDAQ"},
        {"symbol": "APLE", "name": "Apple Hospitality", "currency": "USD", "exchange": "NASDAQ"},
    ]


def test_a_long_query_searches_names_only(provider: LoopbackProvider) -> None:
    provider.play("search-name", Answer([listing("MSFT", "Microsoft Corporation")]))
    ask(provider, "fmp_search_ticker", {"query": "Microsoft & Co? apikey=x"})
    assert [seen.path for seen in provider.requests] == ["/api/search-name"]
    assert provider.requests[0].query["query"] == "Microsoft & Co? apikey=x"


def test_a_search_that_finds_nothing_is_an_empty_list(provider: LoopbackProvider) -> None:
    provider.play("search-name", Answer([]))
    assert ask(provider, "fmp_search_ticker", {"query": "no such company"}) == []


def test_news_for_tickers_and_the_latest_news_use_their_own_endpoints(provider: LoopbackProvider) -> None:
    provider.play("news/stock", Answer([article("one"), article("two")]))
    provider.play("news/stock-latest", Answer([article("three")]))
    answer = ask(provider, "fmp_get_stock_news", {"tickers": "aapl, MSFT", "limit": 1})
    assert answer == [
        {
            "symbol": "AAPL",
            "publishedDate": "2025-02-03 21:05:14",
            "publisher": "CNBC",
            "title": "one",
            "text": "Shares rose.",
            "url": "https://www.cnbc.com/1",
        }
    ]
    assert provider.requests[0].query == {"symbols": "AAPL,MSFT", "limit": "1"}
    assert [row["title"] for row in ask(provider, "fmp_get_stock_news")] == ["three"]


def test_change_and_previous_close_are_read_off_one_quote(provider: LoopbackProvider) -> None:
    provider.play("quote", Answer([QUOTE]))
    change = ask(provider, "fmp_get_change_percent", {"symbol": "AAPL"})
    close = ask(provider, "fmp_get_previous_close", {"symbol": "AAPL"})
    assert change == {"symbol": "AAPL", "changePercentage": 2.1008}
    assert close == {"symbol": "AAPL", "previousClose": 228.01}
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("tool", "path"),
    [
        ("fmp_get_quote", "quote"),
        ("fmp_get_company_profile", "profile"),
        ("fmp_get_income_statement", "income-statement"),
    ],
)
def test_an_unknown_symbol_is_the_models_mistake(provider: LoopbackProvider, tool: str, path: str) -> None:
    provider.play(path, Answer([]))
    with pytest.raises(ToolError, match="fmp_search_ticker"):
        ask(provider, tool, {"symbol": "ZZZZ"})


def test_the_key_goes_in_a_header_and_not_in_the_url(provider: LoopbackProvider) -> None:
    provider.play("quote", Answer([QUOTE]))
    ask(provider, "fmp_get_change_percent", {"symbol": "AAPL"})
    assert provider.requests[0].headers["apikey"] == KEY
    assert provider.requests[0].query == {"symbol": "AAPL"}


def test_a_refusal_dressed_as_a_success_is_the_providers(provider: LoopbackProvider) -> None:
    provider.play("quote", Answer({"Error Message": f"Limit Reach for {KEY}. Please upgrade"}))
    with pytest.raises(Unavailable, match=r"Limit Reach for \*\*\*"):
        ask(provider, "fmp_get_change_percent", {"symbol": "AAPL"})


@pytest.mark.parametrize("limit", [0, -1, "3", True, 2.5])
def test_a_limit_that_is_no_count_is_the_models_mistake(provider: LoopbackProvider, limit: object) -> None:
    with pytest.raises(ToolError, match="limit"):
        ask(provider, "fmp_get_market_gainers", {"limit": limit})
    assert provider.requests == []


def test_a_huge_limit_is_cut_before_it_is_sent(provider: LoopbackProvider) -> None:
    provider.play("news/stock-latest", Answer([]))
    assert ask(provider, "fmp_get_stock_news", {"limit": 10**9}) == []
    assert provider.requests[0].query["limit"] == "50"
