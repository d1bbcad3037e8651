"""Real tickers can be asked for in the embedded world; nothing about its invented companies changes by it."""

import asyncio
import hashlib
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest

from turnwise.mcp.serve import ToolError, build
from turnwise.servers.contract import service_of
from turnwise.servers.embedded import embedded_backend
from turnwise.servers.embedded.companies import make_companies
from turnwise.servers.embedded.listed_names import named_in
from turnwise.servers.embedded.past_sessions import holidays, new_york_on, past_sessions
from turnwise.servers.embedded.sessions import HOLIDAYS, SESSIONS
from turnwise.servers.embedded.world import World, open_world
from turnwise.servers.services import Backend, open_service

Call = Callable[..., Any]

INVENTED = "2dd9fa52a9804fbf6ea37b6f7c1e417f1d5debda2f4dc4b89bc13dda426b8662"
"""Digest of `invented_answers` as they were before any real ticker was listed."""


@pytest.fixture(scope="module")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "worlds"


@pytest.fixture(scope="module")
def world(cache_home: Path) -> World:
    return open_world(0, cache_dir=cache_home / "turnwise")


@pytest.fixture(scope="module")
def call(cache_home: Path) -> Call:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_home))
        return caller()


def caller() -> Call:
    """`call(tool, **arguments)` through the handlers that the MCP server calls."""
    handlers = {}
    for name in ("fmp", "polygon", "tavily", "slack"):
        backend, drop = embedded_backend(name, 0)
        handlers.update({tool.name: tool.handler for tool in service_of(name, backend, drop=drop).tools})

    def invoke(tool: str, **arguments: Any) -> Any:
        return asyncio.run(handlers[tool](arguments, "episode"))

    return invoke


def invented_answers(world: World, call: Call) -> str:
    """A digest of what every tool answers about some invented companies, mistakes and lists included."""
    digest = hashlib.sha256()

    def note(tool: str, **arguments: Any) -> None:
        try:
            answer = call(tool, **arguments)
        except ToolError as error:
            answer = str(error)
        digest.update(json.dumps([tool, arguments, answer]).encode())

    for company in world.market.companies()[::20]:
        symbol, name, root = company.symbol, company.name, company.name.split()[0]
        for tool in ("fmp_get_quote", "fmp_get_company_profile", "fmp_get_change_percent"):
            note(tool, symbol=symbol)
        note("fmp_get_income_statement", symbol=symbol, period="quarterly", limit=50)
        note("fmp_get_stock_news", tickers=symbol, limit=50)
        note("polygon_get_news", ticker=symbol, limit=50)
        note("polygon_get_ticker_details", ticker=symbol)
        note("polygon_get_previous_close", ticker=symbol)
        for start, end in (("2018-01-01", "2026-12-31"), ("2018-01-01", "2024-06-30")):
            note("polygon_get_aggs", ticker=symbol, start_date=start, end_date=end)
        for frequency in ("hourly", "minute"):
            note(
                "polygon_get_aggs",
                ticker=symbol,
                start_date="2026-06-29",
                end_date="2026-06-30",
                frequency=frequency,
            )
            note(
                "polygon_get_aggs",
                ticker=symbol,
                start_date="2025-06-02",
                end_date="2025-06-02",
                frequency=frequency,
            )
        for query in (name, root, name[:4], name[:-2], symbol[:3], f"the {name}"):
            note("fmp_search_ticker", query=query)
        for mistake in (symbol[:-1], f"{symbol}X", name):
            note("fmp_get_quote", symbol=mistake)
        for query in (f"Who is the CEO of {name}?", f"news about {root}", f"{company.ceo} biography born"):
            note("tavily_search", query=query, max_results=10)
            note("tavily_qna_search", query=query)
    for tool in ("fmp_get_market_gainers", "fmp_get_market_losers", "fmp_get_stock_news"):
        note(tool, limit=50)
    for query in ("Which company gained the most today?", "market wrap June 30, 2026", "Is the market open?"):
        note("tavily_search", query=query, max_results=20)
        note("tavily_qna_search", query=query)
    note("list_slack_channels")
    note("get_slack_channel_history", channel_id="trading", limit=200)
    return digest.hexdigest()


def test_answers_about_invented_companies_are_what_they_were(world: World, call: Call) -> None:
    assert invented_answers(world, call) == INVENTED


def test_no_list_ranking_or_news_feed_holds_a_real_ticker(world: World, call: Call) -> None:
    real = {listing.company.symbol for listing in world.market.listings.all()}
    assert len(real) > 300
    shown = [
        *(
            row["symbol"]
            for tool in ("gainers", "losers")
            for row in call(f"fmp_get_market_{tool}", limit=50)
        ),
        *(row["symbol"] for row in call("fmp_get_stock_news", limit=50)),
        *(company.symbol for company in world.market.companies()),
    ]
    assert not real & set(shown)
    assert not any(named_in(world.market.listings, article.text) for article in world.articles[::40])


@pytest.mark.parametrize("seed", range(4))
def test_a_slip_of_one_letter_in_an_invented_ticker_gives_no_real_one(world: World, seed: int) -> None:
    for company in make_companies(seed):
        symbol = company.symbol
        for at in range(len(symbol)):
            slips = [symbol[:at] + symbol[at + 1 :]]
            slips += [symbol[:at] + letter + symbol[at + 1 :] for letter in ascii_uppercase]
            assert not [slip for slip in slips if world.market.listings.find(slip)], symbol


def test_the_tables_are_read_only_when_a_real_ticker_is_asked_for(cache_home: Path) -> None:
    world = open_world(0, cache_dir=cache_home / "turnwise")
    world.market.quote("NORVC")
    assert "_listings" not in vars(world.market.listings)
    world.market.quote("AAPL")
    assert "_listings" in vars(world.market.listings)


def test_every_listing_has_a_quote_a_profile_bars_and_news_that_agree(world: World, call: Call) -> None:
    for listing in world.market.listings.all():
        symbol = listing.company.symbol
        quote = call("fmp_get_quote", symbol=symbol)
        before = call("polygon_get_previous_close", ticker=symbol)
        bars = call("polygon_get_aggs", ticker=symbol, start_date="2026-06-29", end_date="2026-06-30")
        assert quote["symbol"] == before["ticker"] == bars["ticker"] == symbol
        assert [bar["c"] for bar in bars["results"]] == [before["c"], quote["price"]]
        assert quote["price"] > 0
        assert call("polygon_get_ticker_details", ticker=symbol)["name"] == quote["name"]
        assert "invented" in call("fmp_get_company_profile", symbol=symbol)["description"]
    for listing in world.market.listings.all()[::15]:
        news = call("fmp_get_stock_news", tickers=listing.company.symbol)
        assert len(news) >= 6
        assert all("Synthetic" in article["text"] for article in news)


@pytest.mark.parametrize(
    ("typed", "symbol"),
    [
        *(("aapl", "AAPL"), ("$TSLA", "TSLA"), ("VIX", "^VIX"), ("brk.b", "BRK-B"), ("BTC", "BTCUSD")),
        *(("BTC-USD", "BTCUSD"), ("X:BTCUSD", "BTCUSD"), ("BTC–USD", "BTCUSD"), ("EUR/USD", "EURUSD")),
        *(("C:EURUSD", "EURUSD"), ("EURUSD=X", "EURUSD"), ("SPX", "^GSPC"), ("I:SPX", "^GSPC")),
    ],
)
def test_a_symbol_is_known_in_every_usual_spelling(call: Call, typed: str, symbol: str) -> None:
    assert call("fmp_get_quote", symbol=typed)["symbol"] == symbol


@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        *(
            ("Apple", "AAPL"),
            ("apple inc", "AAPL"),
            ("Google", "GOOGL"),
            ("AT&T", "T"),
            ("bitcoin", "BTCUSD"),
        ),
        *(("S&P 500", "^GSPC"), ("EURUSD", "EURUSD"), ("Johnson & Johnson", "JNJ"), ("TSMC", "TSM")),
        # Invented companies are spelt like these, and come after them.
        *(("Tesla", "TSLA"), ("NVDA", "NVDA"), ("Ford", "F")),
    ],
)
def test_a_search_by_name_finds_the_real_ticker_first(call: Call, query: str, symbol: str) -> None:
    assert call("fmp_search_ticker", query=query)[0]["symbol"] == symbol


def test_an_invented_company_that_fits_a_query_keeps_it(world: World, call: Call) -> None:
    found = call("fmp_search_ticker", query="T", limit=50)
    assert found
    assert all(world.market.listing(row["symbol"]) is None for row in found)


def test_a_name_given_for_a_ticker_is_answered_with_the_ticker(call: Call) -> None:
    with pytest.raises(ToolError, match=r"did you mean TSLA \(Tesla, Inc\.\)"):
        call("fmp_get_quote", symbol="Tesla")


def test_bars_of_real_tickers_go_back_to_2018_and_join(world: World, call: Call) -> None:
    market = world.market
    for symbol in ("AAPL", "SPY", "^VIX", "EURUSD", "BTCUSD"):
        found = call("polygon_get_aggs", ticker=symbol, start_date="2018-01-01", end_date="2018-12-31")
        assert found["results"][0]["t"] == "2018-01-02"
        assert found["resultsCount"] == 251
        last, first = market.daily_bar(symbol, past_sessions()[-1]), market.daily_bar(symbol, SESSIONS[0])
        assert first.open == pytest.approx(last.close, rel=0.15)
        for bar in (last, first):
            assert bar.low <= min(bar.open, bar.close) <= max(bar.open, bar.close) <= bar.high
    with pytest.raises(ToolError, match="they run from 2018-01-02 to 2026-06-30"):
        call("polygon_get_aggs", ticker="AAPL", start_date="2010-01-01", end_date="2010-02-01")


def test_hours_and_minutes_of_any_session_add_up_to_the_day(world: World) -> None:
    market, day = world.market, date(2020, 3, 16)
    whole = market.daily_bar("EURUSD", day)
    for parts in (market.hourly_bars("EURUSD", day), market.minute_bars("EURUSD", day)):
        assert (parts[0].open, parts[-1].close) == (whole.open, whole.close)
        assert max(part.high for part in parts) == whole.high
        assert sum(part.volume for part in parts) == whole.volume


def test_times_of_day_carry_new_yorks_offset_of_the_season(call: Call) -> None:
    assert new_york_on(date(2024, 3, 9)) != new_york_on(date(2024, 3, 10))
    assert new_york_on(date(2024, 11, 2)) != new_york_on(date(2024, 11, 3))
    winter = {"start_date": "2025-01-15", "end_date": "2025-01-15", "frequency": "hourly"}
    first = call("polygon_get_aggs", ticker="MSFT", **winter)["results"][0]
    assert first["t"] == "2025-01-15T09:30:00-05:00"


def test_the_holiday_rules_give_the_known_holidays() -> None:
    ruled = {day for year in (2024, 2025, 2026) for day in holidays(year)}
    assert {day for day in ruled if SESSIONS[0] <= day <= SESSIONS[-1]} == set(HOLIDAYS)
    # The exchange's own counts of its trading days.
    counts = [sum(day.year == year for day in past_sessions()) for year in range(2018, 2024)]
    assert counts == [251, 252, 253, 252, 251, 250]


def test_statements_of_a_real_company_add_up_and_a_fund_has_none(call: Call) -> None:
    years = call("fmp_get_income_statement", symbol="AAPL", limit=5)
    quarters = call("fmp_get_income_statement", symbol="AAPL", period="quarterly", limit=21)
    parts = [quarter for quarter in quarters if quarter["fiscalYear"] == "2025"]
    assert years[0]["revenue"] == sum(part["revenue"] for part in parts)
    with pytest.raises(ToolError, match=r"SPY .* has no income statements"):
        call("fmp_get_income_statement", symbol="SPY")


def test_the_web_answers_about_real_tickers_and_says_that_it_invents(call: Call) -> None:
    profile = call("fmp_get_company_profile", symbol="AAPL")
    quote = call("fmp_get_quote", symbol="EURUSD")
    for question, fact in (
        ("Who is the CEO of Apple?", profile["ceo"]),
        ("What is the price of EURUSD?", f"${quote['price']:.4f}"),
        ("Which has the higher market cap, Apple or Microsoft?", "of the companies named"),
    ):
        told = call("tavily_qna_search", query=question)["answer"]
        assert fact in told
        assert "Synthetic" in told
    for hit in call("tavily_search", query="Apple revenue and net income", max_results=3)["results"]:
        assert "Apple" in hit["title"]


def test_words_that_are_also_symbols_name_no_listing(world: World) -> None:
    for sentence in ("What is on now, and so low a cost?", "AI at 9 AM", "the southern target of a visa"):
        assert named_in(world.market.listings, sentence) == []
    named = named_in(world.market.listings, "Is $AI or Target dearer than nvidia?")
    assert {listing.company.symbol for listing in named} == {"AI", "TGT", "NVDA"}


async def test_the_embedded_servers_tell_every_client_that_their_data_is_synthetic(
    cache_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))

    async def instructions() -> str | None:
        async with open_service("fmp", Backend.EMBEDDED, {}) as service:
            return build(service).create_initialization_options().instructions

    assert "every price" in (await instructions() or "")
