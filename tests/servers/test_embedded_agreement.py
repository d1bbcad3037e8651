"""The same question gets the same answer from every embedded tool that can answer it, for every company."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from turnwise.servers.contract import contract, service_of
from turnwise.servers.embedded import embedded_backend
from turnwise.servers.embedded.world import World, open_world

Call = Callable[..., Awaitable[Any]]
SERVERS = ("fmp", "polygon", "tavily", "slack")


@pytest.fixture(scope="module")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "worlds"


@pytest.fixture(scope="module")
def world(cache_home: Path) -> World:
    return open_world(0, cache_dir=cache_home / "turnwise")


@pytest.fixture
def call(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """`call(tool, **arguments)` through the handlers that the MCP server calls."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    handlers = {}
    for name in SERVERS:
        backend, drop = embedded_backend(name, 0)
        handlers.update({tool.name: tool.handler for tool in service_of(name, backend, drop=drop).tools})

    async def invoke(tool: str, **arguments: Any) -> Any:
        return json.loads(json.dumps(await handlers[tool](arguments, "episode")))

    return invoke


@pytest.mark.parametrize("name", SERVERS)
def test_each_server_has_exactly_the_tools_of_the_contract(
    name: str, cache_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    backend, drop = embedded_backend(name, 0)
    wanted = {tool["name"] for tool in contract()["servers"][name]["tools"]}
    service = service_of(name, backend, drop=drop)
    assert {tool.name for tool in service.tools} == wanted
    assert {method for method in dir(backend) if not method.startswith("_")} - {"drop"} == wanted
    assert (drop is not None) == (name == "slack")


def test_an_unknown_server_is_named_in_the_error() -> None:
    with pytest.raises(ValueError, match="no embedded backend for 'python'"):
        embedded_backend("python", 0)


def test_prices_agree_between_fmp_polygon_the_web_and_the_bars(world: World, call: Call) -> None:
    async def check(symbol: str) -> None:
        quote = await call("fmp_get_quote", symbol=symbol)
        bars = await call("polygon_get_aggs", ticker=symbol, start_date="2026-06-29", end_date="2026-06-30")
        before, last = bars["results"]
        previous = await call("polygon_get_previous_close", ticker=symbol)
        assert (before["t"], last["t"]) == ("2026-06-29", "2026-06-30")
        assert previous == {"ticker": symbol, "date": before["t"], **{key: before[key] for key in "ohlcv"}}
        closing = await call("fmp_get_previous_close", symbol=symbol)
        assert closing == {"symbol": symbol, "previousClose": previous["c"]}
        assert quote["previousClose"] == previous["c"]
        assert (quote["price"], quote["dayLow"], quote["dayHigh"]) == (last["c"], last["l"], last["h"])
        assert quote["volume"] == last["v"]
        change = await call("fmp_get_change_percent", symbol=symbol)
        assert change == {"symbol": symbol, "changePercentage": quote["changePercentage"]}
        told = await call("tavily_qna_search", query=f"What was the previous close of {symbol}?")
        assert f"${previous['c']:,.2f}" in told["answer"]
        told = await call("tavily_qna_search", query=f"What is the share price of {quote['name']}?")
        assert f"${quote['price']:,.2f}" in told["answer"]
        told = await call("tavily_qna_search", query=f"closing price of {symbol} on 2026-06-29")
        assert f"${previous['c']:,.2f}" in told["answer"]

    for_every_company(world, check)


def test_profiles_agree_between_fmp_polygon_and_the_web(world: World, call: Call) -> None:
    async def check(symbol: str) -> None:
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
            assert fact in (await call("tavily_qna_search", query=question))["answer"], question
        found = await call("fmp_search_ticker", query=name)
        assert found[0]["symbol"] == symbol
        assert found[0]["exchange"] == profile["exchange"]

    for_every_company(world, check)


def test_statements_agree_with_the_price_earnings_ratio_and_the_filings(world: World, call: Call) -> None:
    async def check(symbol: str) -> None:
        quote = await call("fmp_get_quote", symbol=symbol)
        quarters = await call("fmp_get_income_statement", symbol=symbol, period="quarterly", limit=21)
        years = await call("fmp_get_income_statement", symbol=symbol, period="annual", limit=5)
        trailing = sum(quarter["eps"] for quarter in quarters[:4])
        assert quote["pe"] == (round(quote["price"] / trailing, 2) if trailing > 0 else None)
        for year in years:
            parts = [quarter for quarter in quarters if quarter["fiscalYear"] == year["fiscalYear"]]
            assert year["revenue"] == sum(part["revenue"] for part in parts)
            assert year["eps"] == pytest.approx(sum(part["eps"] for part in parts), abs=1e-9)
            told = await call(
                "tavily_qna_search", query=f"What was the revenue of {quote['name']} in {year['fiscalYear']}?"
            )
            assert f"${year['revenue']:,}" in told["answer"]
        told = await call("tavily_qna_search", query=f"{symbol} net income Q1 2026")
        assert f"${abs(quarters[0]['netIncome']):,}" in told["answer"]
        found = await call(
            "tavily_search",
            query=f"{quote['name']} {symbol} fiscal year 2025 report",
            search_depth="advanced",
        )
        filing = next(hit for hit in found["results"] if hit["url"].endswith(f"{symbol.lower()}/2025-fy"))
        assert f"Revenue was ${years[0]['revenue']:,}" in filing["content"]

    for_every_company(world, check)


def test_fmp_and_polygon_tell_the_same_news(world: World, call: Call) -> None:
    async def check(symbol: str) -> None:
        ours = await call("fmp_get_stock_news", tickers=symbol, limit=50)
        theirs = await call("polygon_get_news", ticker=symbol, limit=50)
        assert len(ours) >= 7
        assert [(our["title"], our["text"], our["url"], our["publisher"]) for our in ours] == [
            (their["title"], their["description"], their["article_url"], their["publisher"])
            for their in theirs
        ]
        assert all(symbol in their["tickers"] for their in theirs)
        for here, there in zip(ours, theirs, strict=True):
            local = datetime.fromisoformat(here["publishedDate"]).replace(tzinfo=UTC) + timedelta(hours=4)
            assert local == datetime.fromisoformat(there["published_utc"])

    for_every_company(world, check)


def test_pages_about_a_company_hold_its_facts(world: World, call: Call) -> None:
    async def check(symbol: str) -> None:
        profile = await call("fmp_get_company_profile", symbol=symbol)
        quote = await call("fmp_get_quote", symbol=symbol)
        found = await call(
            "tavily_search",
            query=f"{profile['companyName']} {symbol} company profile",
            search_depth="advanced",
        )
        page = next(
            hit for hit in found["results"] if hit["url"] == f"https://companies.example/{symbol.lower()}"
        )
        for fact in (
            profile["ceo"],
            profile["sector"],
            profile["industry"],
            f"${quote['previousClose']:.2f}",
        ):
            assert fact in page["content"], fact
        assert f"${quote['marketCap']:,}" in page["content"]

    for_every_company(world, check)


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
    for question, mover in (("gained", gainers[0]), ("lost", losers[0])):
        told = await call("tavily_qna_search", query=f"Which company {question} the most today?")
        assert f"({mover['symbol']})" in told["answer"]


async def test_market_status_fits_the_last_bar(call: Call) -> None:
    status = await call("polygon_get_market_status")
    assert status["serverTime"] == "2026-06-30T16:30:00-04:00"
    assert (status["market"], status["earlyHours"], status["afterHours"]) == (
        "extended-hours",
        False,
        True,
    )
    assert set(status["exchanges"]) == {"nasdaq", "nyse", "otc"}
    quote = await call("fmp_get_quote", symbol="NORVC")
    closed = datetime.fromisoformat(status["serverTime"]) - timedelta(minutes=30)
    assert quote["timestamp"] == int(closed.timestamp())


def for_every_company(world: World, check: Callable[[str], Awaitable[None]]) -> None:
    async def run() -> None:
        for company in world.market.companies():
            await check(company.symbol)

    asyncio.run(run())
