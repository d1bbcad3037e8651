"""The embedded world answers about real tickers too, and its invented companies do not change by it."""

import hashlib
import json
from datetime import date
from pathlib import Path
from string import ascii_uppercase

import pytest

from tests.worlds.market.conftest import Call
from turnwise.mcp.serve import ToolError, build
from turnwise.worlds.market.data.companies import make_companies
from turnwise.worlds.market.data.listed_names import named_in
from turnwise.worlds.market.data.past_sessions import holidays, new_york_on, past_sessions
from turnwise.worlds.market.data.sessions import HOLIDAYS, SESSIONS
from turnwise.worlds.market.services import Backend, open_service
from turnwise.worlds.market.world import World, open_world

INVENTED = "2dd9fa52a9804fbf6ea37b6f7c1e417f1d5debda2f4dc4b89bc13dda426b8662"
"""Digest of the answers below as they were before any real ticker was listed."""

WINDOWS = (
    *(("2018-01-01", "2026-12-31", {}), ("2018-01-01", "2024-06-30", {})),
    *(
        (start, end, {"frequency": frequency})
        for frequency in ("hourly", "minute")
        for start, end in (("2026-06-29", "2026-06-30"), ("2025-06-02", "2025-06-02"))
    ),
)


async def test_answers_about_invented_companies_are_what_they_were(world: World, call: Call) -> None:
    """All tools, with mistakes and lists."""
    digest = hashlib.sha256()

    async def note(tool: str, **arguments: object) -> None:
        try:
            answer = await call(tool, **arguments)
        except ToolError as error:
            answer = str(error)
        digest.update(json.dumps([tool, arguments, answer]).encode())

    for company in world.market.companies()[::20]:
        symbol, name, root = company.symbol, company.name, company.name.split()[0]
        for tool in ("fmp_get_quote", "fmp_get_company_profile", "fmp_get_change_percent"):
            await note(tool, symbol=symbol)
        await note("fmp_get_income_statement", symbol=symbol, period="quarterly", limit=50)
        await note("fmp_get_stock_news", tickers=symbol, limit=50)
        await note("polygon_get_news", ticker=symbol, limit=50)
        await note("polygon_get_ticker_details", ticker=symbol)
        await note("polygon_get_previous_close", ticker=symbol)
        for start, end, frequency in WINDOWS:
            await note("polygon_get_aggs", ticker=symbol, start_date=start, end_date=end, **frequency)
        for query in (name, root, name[:4], name[:-2], symbol[:3], f"the {name}"):
            await note("fmp_search_ticker", query=query)
        for mistake in (symbol[:-1], f"{symbol}X", name):
            await note("fmp_get_quote", symbol=mistake)
        for query in (f"Who is the CEO of {name}?", f"news about {root}", f"{company.ceo} biography born"):
            await note("tavily_search", query=query, max_results=10)
            await note("tavily_qna_search", query=query)
    for tool in ("fmp_get_market_gainers", "fmp_get_market_losers", "fmp_get_stock_news"):
        await note(tool, limit=50)
    for query in ("Which company gained the most today?", "market wrap June 30, 2026", "Is the market open?"):
        await note("tavily_search", query=query, max_results=20)
        await note("tavily_qna_search", query=query)
    await note("list_slack_channels")
    await note("get_slack_channel_history", channel_id="trading", limit=200)
    assert digest.hexdigest() == INVENTED


async def test_no_list_ranking_or_news_feed_has_a_real_ticker(world: World, call: Call) -> None:
    real = {listing.company.symbol for listing in world.market.listings.all()}
    assert len(real) > 300
    shown = {company.symbol for company in world.market.companies()}
    for tool in ("fmp_get_market_gainers", "fmp_get_market_losers", "fmp_get_stock_news"):
        shown |= {row["symbol"] for row in await call(tool, limit=50)}
    assert not real & shown
    assert not any(named_in(world.market.listings, article.text) for article in world.articles[::40])


@pytest.mark.parametrize("seed", [0, 1])
def test_one_wrong_letter_in_an_invented_ticker_does_not_make_a_real_one(world: World, seed: int) -> None:
    for symbol in (company.symbol for company in make_companies(seed)):
        for at in range(len(symbol)):
            slips = [symbol[:at] + symbol[at + 1 :]]
            slips += [symbol[:at] + letter + symbol[at + 1 :] for letter in ascii_uppercase]
            assert not [slip for slip in slips if world.market.listings.find(slip)], symbol


def test_the_tables_are_read_only_when_a_real_ticker_is_asked_for(cache_dir: Path) -> None:
    world = open_world(0, cache_dir=cache_dir)
    world.market.quote("NORVC")
    assert "_listings" not in vars(world.market.listings)
    world.market.quote("AAPL")
    assert "_listings" in vars(world.market.listings)


async def test_every_listing_has_a_quote_a_profile_bars_and_news_that_agree(world: World, call: Call) -> None:
    for listing in world.market.listings.all():
        symbol = listing.company.symbol
        quote = await call("fmp_get_quote", symbol=symbol)
        before = await call("polygon_get_previous_close", ticker=symbol)
        bars = await call("polygon_get_aggs", ticker=symbol, start_date="2026-06-29", end_date="2026-06-30")
        assert quote["symbol"] == before["ticker"] == bars["ticker"] == symbol
        assert [bar["c"] for bar in bars["results"]] == [before["c"], quote["price"]]
        assert quote["price"] > 0
        assert (await call("polygon_get_ticker_details", ticker=symbol))["name"] == quote["name"]
        assert "invented" in (await call("fmp_get_company_profile", symbol=symbol))["description"]
    for listing in world.market.listings.all()[::15]:
        news = await call("fmp_get_stock_news", tickers=listing.company.symbol)
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
async def test_a_symbol_is_known_in_every_usual_spelling(call: Call, typed: str, symbol: str) -> None:
    assert (await call("fmp_get_quote", symbol=typed))["symbol"] == symbol


@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        *(("Apple", "AAPL"), ("apple inc", "AAPL"), ("Google", "GOOGL"), ("AT&T", "T"), ("TSMC", "TSM")),
        *(("S&P 500", "^GSPC"), ("EURUSD", "EURUSD"), ("Johnson & Johnson", "JNJ"), ("bitcoin", "BTCUSD")),
        # Invented companies with similar names rank below these.
        *(("Tesla", "TSLA"), ("NVDA", "NVDA"), ("Ford", "F")),
    ],
)
async def test_a_search_by_name_finds_the_real_ticker_first(call: Call, query: str, symbol: str) -> None:
    assert (await call("fmp_search_ticker", query=query))[0]["symbol"] == symbol


async def test_an_invented_company_that_fits_a_query_keeps_it(world: World, call: Call) -> None:
    found = await call("fmp_search_ticker", query="T", limit=50)
    assert found
    assert all(world.market.listing(row["symbol"]) is None for row in found)


async def test_a_name_given_for_a_ticker_is_answered_with_the_ticker(call: Call) -> None:
    with pytest.raises(ToolError, match=r"did you mean TSLA \(Tesla, Inc\.\)"):
        await call("fmp_get_quote", symbol="Tesla")


async def test_bars_of_real_tickers_begin_in_2018_without_a_gap(world: World, call: Call) -> None:
    market = world.market
    for symbol in ("AAPL", "SPY", "^VIX", "EURUSD", "BTCUSD"):
        found = await call("polygon_get_aggs", ticker=symbol, start_date="2018-01-01", end_date="2018-12-31")
        assert found["results"][0]["t"] == "2018-01-02"
        assert found["resultsCount"] == 251
        last, first = market.daily_bar(symbol, past_sessions()[-1]), market.daily_bar(symbol, SESSIONS[0])
        assert first.open == pytest.approx(last.close, rel=0.15)
        for bar in (last, first):
            assert bar.low <= min(bar.open, bar.close) <= max(bar.open, bar.close) <= bar.high
    with pytest.raises(ToolError, match="they run from 2018-01-02 to 2026-06-30"):
        await call("polygon_get_aggs", ticker="AAPL", start_date="2010-01-01", end_date="2010-02-01")


def test_hours_and_minutes_of_any_session_add_up_to_the_day(world: World) -> None:
    market, day = world.market, date(2020, 3, 16)
    whole = market.daily_bar("EURUSD", day)
    for parts in (market.hourly_bars("EURUSD", day), market.minute_bars("EURUSD", day)):
        assert (parts[0].open, parts[-1].close) == (whole.open, whole.close)
        assert max(part.high for part in parts) == whole.high
        assert sum(part.volume for part in parts) == whole.volume


async def test_times_of_day_carry_new_yorks_offset_of_the_season(call: Call) -> None:
    assert new_york_on(date(2024, 3, 9)) != new_york_on(date(2024, 3, 10))
    assert new_york_on(date(2024, 11, 2)) != new_york_on(date(2024, 11, 3))
    winter = {"start_date": "2025-01-15", "end_date": "2025-01-15", "frequency": "hourly"}
    first = (await call("polygon_get_aggs", ticker="MSFT", **winter))["results"][0]
    assert first["t"] == "2025-01-15T09:30:00-05:00"


def test_the_holiday_rules_give_the_known_holidays() -> None:
    ruled = {day for year in (2024, 2025, 2026) for day in holidays(year)}
    assert {day for day in ruled if SESSIONS[0] <= day <= SESSIONS[-1]} == set(HOLIDAYS)
    # The exchange's own counts of its trading days.
    counts = [sum(day.year == year for day in past_sessions()) for year in range(2018, 2024)]
    assert counts == [251, 252, 253, 252, 251, 250]


async def test_statements_of_a_real_company_add_up_and_a_fund_has_none(call: Call) -> None:
    years = await call("fmp_get_income_statement", symbol="AAPL", limit=5)
    quarters = await call("fmp_get_income_statement", symbol="AAPL", period="quarterly", limit=21)
    parts = [quarter for quarter in quarters if quarter["fiscalYear"] == "2025"]
    assert years[0]["revenue"] == sum(part["revenue"] for part in parts)
    with pytest.raises(ToolError, match=r"SPY .* has no income statements"):
        await call("fmp_get_income_statement", symbol="SPY")


async def test_the_web_answers_about_real_tickers_and_says_that_it_invents(call: Call) -> None:
    profile = await call("fmp_get_company_profile", symbol="AAPL")
    quote = await call("fmp_get_quote", symbol="EURUSD")
    for question, fact in (
        ("Who is the CEO of Apple?", profile["ceo"]),
        ("What is the price of EURUSD?", f"${quote['price']:.4f}"),
        ("Which has the higher market cap, Apple or Microsoft?", "of the companies named"),
    ):
        answer = (await call("tavily_qna_search", query=question))["answer"]
        assert fact in answer
        assert "Synthetic" in answer
    for hit in (await call("tavily_search", query="Apple revenue and net income", max_results=3))["results"]:
        assert "Apple" in hit["title"]


def test_words_that_are_also_symbols_name_no_listing(world: World) -> None:
    for sentence in ("What is on now, and so low a cost?", "AI at 9 AM", "the southern target of a visa"):
        assert named_in(world.market.listings, sentence) == []
    named = named_in(world.market.listings, "Is $AI or Target dearer than nvidia?")
    assert {listing.company.symbol for listing in named} == {"AI", "TGT", "NVDA"}


async def test_a_client_is_informed_that_the_data_is_synthetic(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_dir.parent))
    async with open_service("fmp", Backend.EMBEDDED, {}) as service:
        assert "every price" in (build(service).create_initialization_options().instructions or "")
