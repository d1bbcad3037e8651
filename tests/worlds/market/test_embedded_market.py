"""The embedded market adds up: bars, statements, quotes and news follow from each other."""

import re
from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from turnwise.worlds.market.data.bars import Bar
from turnwise.worlds.market.data.businesses import SECTORS
from turnwise.worlds.market.data.market import Market, make_market
from turnwise.worlds.market.data.sessions import (
    CLOCK,
    HOLIDAYS,
    HOURLY_SESSIONS,
    LAST_SESSION,
    MINUTE_SESSIONS,
    PREVIOUS_SESSION,
    SESSIONS,
)
from turnwise.worlds.market.web.news import make_articles
from turnwise.worlds.market.world import World

REAL_NAMES = (
    *("apple", "microsoft", "google", "alphabet", "amazon", "nvidia", "tesla", "meta", "netflix", "intel"),
    *("oracle", "adobe", "cisco", "walmart", "costco", "target", "pfizer", "merck", "novartis", "roche"),
    *("abbvie", "amgen", "gilead", "boeing", "airbus", "lockheed", "caterpillar", "deere", "exxon", "shell"),
    *("chevron", "visa", "mastercard", "paypal", "goldman", "morgan", "disney", "comcast", "verizon", "basf"),
    *("nike", "adidas", "starbucks", "pepsi", "danone", "nestle", "unilever", "siemens", "vodafone", "bayer"),
    *("toyota", "honda", "sony", "samsung", "volvo", "ericsson", "nokia", "spotify", "salesforce", "solvay"),
)


@pytest.fixture(scope="module")
def market(world: World) -> Market:
    return world.market


def aggregated(bars: Sequence[Bar]) -> tuple[int, ...]:
    """Open, high, low, close and volume of several bars together."""
    high, low = max(bar.high_cents for bar in bars), min(bar.low_cents for bar in bars)
    return bars[0].open_cents, high, low, bars[-1].close_cents, sum(bar.volume for bar in bars)


def is_sound(bar: Bar) -> bool:
    """Its prices are in order and it was traded."""
    inner = sorted((bar.open_cents, bar.close_cents))
    return 0 < bar.low_cents <= inner[0] <= inner[1] <= bar.high_cents and bar.volume > 0


def test_two_hundred_companies_have_unique_names_symbols_and_ceos(market: Market) -> None:
    companies = market.companies()
    assert len(companies) == 200
    for field in ("symbol", "name", "ceo", "website"):
        assert len({getattr(company, field) for company in companies}) == 200, field
    assert {company.sector for company in companies} == set(SECTORS)
    assert len({company.industry for company in companies}) > 20
    assert len({company.country for company in companies}) > 5


def test_names_are_invented_and_tickers_have_a_form_that_listings_hardly_use(market: Market) -> None:
    for company in market.companies():
        root = company.name.split()[0].lower()
        assert not any(root.startswith(real) for real in REAL_NAMES), company.name
        assert re.fullmatch(r"[A-Z]{4}[TSGHCDJ]", company.symbol)
        assert company.website.endswith(".example")


def test_many_companies_share_the_first_word_of_their_name(market: Market) -> None:
    roots = [company.name.split()[0] for company in market.companies()]
    assert sum(roots.count(root) > 1 for root in roots) > 60


def test_sessions_are_two_years_of_weekdays_without_holidays_up_to_the_clock() -> None:
    assert SESSIONS[0] == date(2024, 7, 1)
    assert SESSIONS[-1] == LAST_SESSION == CLOCK.date()
    num_days = (LAST_SESSION - SESSIONS[0]).days + 1
    days = [SESSIONS[0] + timedelta(days=offset) for offset in range(num_days)]
    weekdays = [day for day in days if day.weekday() < 5]
    assert [day for day in weekdays if day not in HOLIDAYS] == list(SESSIONS)
    assert set(HOLIDAYS) <= set(weekdays)


def test_every_daily_bar_is_sound(market: Market) -> None:
    for company in market.companies():
        bars = market.daily_bars(company.symbol)
        assert [bar.day for bar in bars] == list(SESSIONS)
        assert [bar for bar in bars if not is_sound(bar)] == []


def test_hours_add_up_to_days_for_every_company(market: Market) -> None:
    for company in market.companies():
        for day in HOURLY_SESSIONS[::4]:
            hours = market.hourly_bars(company.symbol, day)
            assert len(hours) == 7
            assert aggregated(hours) == aggregated([market.daily_bar(company.symbol, day)])


def test_minutes_are_sound_and_add_up_to_hours(market: Market) -> None:
    for company in market.companies()[::10]:
        for day in MINUTE_SESSIONS[::4]:
            minutes = market.minute_bars(company.symbol, day)
            assert len({bar.start for bar in minutes}) == 390
            for hour in market.hourly_bars(company.symbol, day):
                # The first bar begins at 09:30 and ends with the clock's hour like the others.
                inside = [bar for bar in minutes if bar.start.hour == hour.start.hour]
                assert aggregated(inside) == aggregated([hour]), (company.symbol, hour.start)
                assert [bar for bar in (hour, *inside) if not is_sound(bar)] == []


SUMS = (
    *("revenue", "cost_of_revenue", "gross_profit", "operating_expenses"),
    *("operating_income", "net_income", "eps_cents"),
)


def test_quarters_add_up_to_years_and_profits_follow_from_sales_and_costs(market: Market) -> None:
    for company in market.companies():
        quarters, years = market.quarters(company.symbol), market.years(company.symbol)
        assert [year.fiscal_year for year in years] == [2025, 2024, 2023, 2022, 2021]
        assert len(quarters) == 21
        ends = [quarter.ends_on for quarter in quarters]
        assert ends == sorted(ends, reverse=True)
        for year in years:
            parts = [quarter for quarter in quarters if quarter.fiscal_year == year.fiscal_year]
            for field in SUMS:
                assert getattr(year, field) == sum(getattr(part, field) for part in parts), field
        for statement in (*quarters, *years):
            assert statement.gross_profit == statement.revenue - statement.cost_of_revenue
            assert statement.operating_income == statement.gross_profit - statement.operating_expenses
            assert statement.net_income * 100 == statement.eps_cents * company.shares


def test_quotes_follow_from_the_last_two_bars_and_the_statements(market: Market) -> None:
    num_losing = 0
    for company in market.companies():
        quote = market.quote(company.symbol)
        before, last = market.daily_bars(company.symbol)[-2:]
        assert (before.day, last.day) == (PREVIOUS_SESSION, LAST_SESSION)
        assert (quote.price, quote.previous_close) == (last.close, before.close)
        assert (quote.day_low, quote.day_high, quote.volume) == (last.low, last.high, last.volume)
        assert quote.change == pytest.approx(last.close - before.close, abs=1e-9)
        assert quote.change_percent == round(100 * (last.close - before.close) / before.close, 2)
        assert quote.market_cap == pytest.approx(last.close * company.shares, abs=0.5)
        trailing = sum(quarter.eps for quarter in market.quarters(company.symbol)[:4])
        num_losing += quote.pe is None
        assert quote.pe == (round(last.close / trailing, 2) if trailing > 0 else None)
    assert 0 < num_losing < 40


def test_gainers_and_losers_are_ordered_and_do_not_overlap(market: Market) -> None:
    gainers, losers = market.gainers(), market.losers()
    rises = [quote.change_percent for quote in gainers]
    falls = [quote.change_percent for quote in losers]
    assert rises == sorted(rises, reverse=True)
    assert falls == sorted(falls)
    assert all(quote.change > 0 for quote in gainers)
    assert all(quote.change < 0 for quote in losers)
    assert len(gainers) + len(losers) <= 200


def test_news_states_facts_and_its_sentiment_is_their_direction(market: Market) -> None:
    articles = make_articles(market)
    published = [article.published for article in articles]
    assert published == sorted(published, reverse=True)
    assert published[0] <= CLOCK
    assert len({article.url for article in articles}) == len(articles)
    checked = 0
    for article in articles:
        company = market.company(article.tickers[0])
        move = re.search(r"shares (jump|tumble) ([\d.]+)% to \$([\d.]+)", article.title)
        if move:
            quote = market.quote(company.symbol, article.published.date())
            assert (abs(quote.change_percent), quote.price) == (float(move[2]), float(move[3]))
            assert article.sentiment == ("positive" if quote.change > 0 else "negative")
            assert (move[1] == "jump") == (quote.change > 0)
            checked += 1
        sales = re.search(r"reported revenue of \$([\d,]+) .* against \$([\d,]+)", article.text)
        if sales:
            now, before = market.quarters(company.symbol)[0], market.quarters(company.symbol)[4]
            stated = tuple(int(group.replace(",", "")) for group in sales.groups())
            assert (now.revenue, before.revenue) == stated
            assert (article.sentiment == "positive") == (now.revenue > before.revenue)
            checked += 1
    assert checked == 400


def test_another_seed_is_another_world(market: Market) -> None:
    other = make_market(1)
    assert {company.name for company in other.companies()} != {company.name for company in market.companies()}
    assert len({company.symbol for company in other.companies()}) == 200
