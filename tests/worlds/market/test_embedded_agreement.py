"""The same question gets the same answer from every embedded tool that can answer it."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.worlds.market.conftest import Call
from turnwise.worlds.market.contract import contract, service_of
from turnwise.worlds.market.tools import embedded_backend
from turnwise.worlds.market.world import World


@pytest.fixture(scope="session")
def symbols(world: World) -> list[str]:
    """Every fourth company, of every sector, with profits and losses and with names that others share."""
    return [company.symbol for company in world.market.companies()[::4]]


async def answer_to(call: Call, question: str) -> str:
    return str((await call("tavily_qna_search", query=question))["answer"])


@pytest.mark.parametrize("name", ["fmp", "polygon", "tavily", "slack"])
def test_a_server_has_exactly_the_tools_of_the_contract(
    name: str, cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_dir.parent))
    backend, drop = embedded_backend(name, 0)
    wanted = {tool["name"] for tool in contract()["servers"][name]["tools"]}
    assert {tool.name for tool in service_of(name, backend, drop=drop).tools} == wanted
    assert {method for method in dir(backend) if not method.startswith("_")} - {"drop"} == wanted
    assert (drop is not None) == (name == "slack")


def test_an_unknown_server_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match="no embedded backend for 'python'"):
        embedded_backend("python", 0)


async def test_prices_agree_between_fmp_polygon_the_web_and_the_bars(symbols: list[str], call: Call) -> None:
    for symbol in symbols:
        quote = await call("fmp_get_quote", symbol=symbol)
        bars = await call("polygon_get_aggs", ticker=symbol, start_date="2026-06-29", end_date="2026-06-30")
        before, last = bars["results"]
        previous = await call("polygon_get_previous_close", ticker=symbol)
        assert (before["t"], last["t"]) == ("2026-06-29", "2026-06-30")
        assert previous == {"ticker": symbol, "date": before["t"], **{key: before[key] for key in "ohlcv"}}
        close = await call("fmp_get_previous_close", symbol=symbol)
        assert close == {"symbol": symbol, "previousClose": previous["c"]}
        assert quote["previousClose"] == previous["c"]
        assert (quote["price"], quote["dayLow"], quote["dayHigh"]) == (last["c"], last["l"], last["h"])
        assert quote["volume"] == last["v"]
        change = await call("fmp_get_change_percent", symbol=symbol)
        assert change == {"symbol": symbol, "changePercentage": quote["changePercentage"]}
        for question, price in (
            (f"What was the previous close of {symbol}?", previous["c"]),
            (f"What is the share price of {quote['name']}?", quote["price"]),
            (f"closing price of {symbol} on 2026-06-29", previous["c"]),
        ):
            assert f"${price:,.2f}" in await answer_to(call, question)


async def test_profiles_agree_between_fmp_polygon_and_the_web(symbols: list[str], call: Call) -> None:
    for symbol in symbols:
        profile = await call("fmp_get_company_profile", symbol=symbol)
        details = await call("polygon_get_ticker_details", ticker=symbol)
        quote = await call("fmp_get_quote", symbol=symbol)
        name = profile["companyName"]
        assert name == details["name"] == quote["name"]
        assert profile["marketCap"] == details["market_cap"] == quote["marketCap"]
        shares = details["share_class_shares_outstanding"]
        assert details["market_cap"] == pytest.approx(quote["price"] * shares, abs=0.5)
        assert profile["fullTimeEmployees"] == details["total_employees"]
        assert profile["website"] == details["homepage_url"]
        assert details["primary_exchange"] == {"NASDAQ": "XNAS", "NYSE": "XNYS"}[profile["exchange"]]
        for question, fact in (
            (f"Who is the CEO of {name}?", profile["ceo"]),
            (f"What sector is {name} in?", profile["sector"]),
            (f"What industry is {symbol} in?", profile["industry"]),
            (f"Which country is {name} from?", profile["country"]),
            (f"How many employees does {name} have?", f"{profile['fullTimeEmployees']:,}"),
            (f"What is the market cap of {name}?", f"${profile['marketCap']:,}"),
            (f"What is the ticker of {name}?", symbol),
            (f"Which company is led by {profile['ceo']}?", name),
            (f"Which company has the symbol {symbol}?", name),
            (f"What is the P/E ratio of {symbol}?", f"{quote['pe']:.2f}" if quote["pe"] else "no P/E"),
        ):
            assert fact in await answer_to(call, question), question
        found = await call("fmp_search_ticker", query=name)
        assert (found[0]["symbol"], found[0]["exchange"]) == (symbol, profile["exchange"])


async def test_pages_about_a_company_hold_its_facts(symbols: list[str], call: Call) -> None:
    for symbol in symbols:
        profile = await call("fmp_get_company_profile", symbol=symbol)
        quote = await call("fmp_get_quote", symbol=symbol)
        query = f"{profile['companyName']} {symbol} company profile"
        found = await call("tavily_search", query=query, search_depth="advanced")
        url = f"https://companies.example/{symbol.lower()}"
        [page] = [hit["content"] for hit in found["results"] if hit["url"] == url]
        for fact in (profile["ceo"], profile["sector"], profile["industry"]):
            assert fact in page
        assert f"${quote['previousClose']:.2f}" in page
        assert f"${quote['marketCap']:,}" in page


async def test_statements_agree_with_the_price_earnings_ratio_and_the_filings(
    symbols: list[str], call: Call
) -> None:
    for symbol in symbols:
        quote = await call("fmp_get_quote", symbol=symbol)
        name = quote["name"]
        quarters = await call("fmp_get_income_statement", symbol=symbol, period="quarterly", limit=21)
        years = await call("fmp_get_income_statement", symbol=symbol, period="annual", limit=5)
        trailing = sum(quarter["eps"] for quarter in quarters[:4])
        assert quote["pe"] == (round(quote["price"] / trailing, 2) if trailing > 0 else None)
        for year in years:
            parts = [quarter for quarter in quarters if quarter["fiscalYear"] == year["fiscalYear"]]
            assert year["revenue"] == sum(part["revenue"] for part in parts)
            assert year["eps"] == pytest.approx(sum(part["eps"] for part in parts), abs=1e-9)
            answer = await answer_to(call, f"What was the revenue of {name} in {year['fiscalYear']}?")
            assert f"${year['revenue']:,}" in answer
        assert f"${abs(quarters[0]['netIncome']):,}" in await answer_to(call, f"{symbol} net income Q1 2026")
        query = f"{name} {symbol} fiscal year 2025 report"
        found = await call("tavily_search", query=query, search_depth="advanced")
        [filing] = [hit for hit in found["results"] if hit["url"].endswith(f"{symbol.lower()}/2025-fy")]
        assert f"Revenue was ${years[0]['revenue']:,}" in filing["content"]


async def test_fmp_and_polygon_have_the_same_news(symbols: list[str], call: Call) -> None:
    for symbol in symbols:
        ours = await call("fmp_get_stock_news", tickers=symbol, limit=50)
        theirs = await call("polygon_get_news", ticker=symbol, limit=50)
        assert len(ours) >= 7
        for our, their in zip(ours, theirs, strict=True):
            assert (our["title"], our["text"], our["url"], our["publisher"]) == (
                *(their["title"], their["description"], their["article_url"], their["publisher"]),
            )
            assert symbol in their["tickers"]
            local = datetime.fromisoformat(our["publishedDate"]).replace(tzinfo=UTC) + timedelta(hours=4)
            assert local == datetime.fromisoformat(their["published_utc"])


async def test_movers_agree_with_quotes_the_market_wrap_and_the_direct_answer(call: Call) -> None:
    gainers = await call("fmp_get_market_gainers", limit=50)
    losers = await call("fmp_get_market_losers", limit=50)
    for mover in (*gainers, *losers):
        quote = await call("fmp_get_quote", symbol=mover["symbol"])
        assert mover["changesPercentage"] == quote["changePercentage"]
        assert (mover["price"], mover["change"]) == (quote["price"], quote["change"])
    wrap = await call("tavily_search", query="market wrap June 30, 2026", search_depth="advanced")
    named = re.findall(r"\(([A-Z]{5})\)", wrap["results"][0]["content"])
    assert named == [mover["symbol"] for mover in (*gainers[:3], *losers[:3])]
    for verb, mover in (("gained", gainers[0]), ("lost", losers[0])):
        assert f"({mover['symbol']})" in await answer_to(call, f"Which company {verb} the most today?")


async def test_market_status_fits_the_last_bar(call: Call) -> None:
    status = await call("polygon_get_market_status")
    assert status["serverTime"] == "2026-06-30T16:30:00-04:00"
    assert (status["market"], status["earlyHours"], status["afterHours"]) == ("extended-hours", False, True)
    assert set(status["exchanges"]) == {"nasdaq", "nyse", "otc"}
    quote = await call("fmp_get_quote", symbol="NORVC")
    closed = datetime.fromisoformat(status["serverTime"]) - timedelta(minutes=30)
    assert quote["timestamp"] == int(closed.timestamp())
