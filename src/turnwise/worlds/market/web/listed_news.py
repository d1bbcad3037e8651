"""News about a real listing: what its invented figures say, and nothing else."""

from collections.abc import Iterator, Sequence
from datetime import date

from turnwise.worlds.market.data.listings import Listing
from turnwise.worlds.market.data.market import Market, percent
from turnwise.worlds.market.data.sessions import LAST_SESSION, SESSIONS
from turnwise.worlds.market.data.statements import reported_on
from turnwise.worlds.market.web.news import (
    NEWS_SESSIONS,
    Article,
    Story,
    dated,
    dollars,
    newest_first,
    price,
    publish,
)
from turnwise.worlds.stream import Stream

NOTICE = "(Synthetic data of turnwise's embedded world.)"
"""Ends every article and page about a real listing, so that nobody mistakes its figures for real ones."""


def listed_articles(market: Market, listing: Listing) -> Sequence[Article]:
    """Return the articles about a listing, newest first."""
    stream = Stream(market.seed, "news", listing.company.symbol)
    stories = _stories(market, listing)
    return newest_first(publish(story, number, stream) for number, story in enumerate(stories))


def shown(amount: float, listing: Listing) -> str:
    """Format a price with the listing's decimals: $1.0812."""
    decimals = len(str(listing.per_unit)) - 1
    return f"${amount:,.{decimals}f}"


def _stories(market: Market, listing: Listing) -> Iterator[Story]:
    if listing.accounts is not None:
        yield _results(market, listing)
    yield _last_close(market, listing)
    yield _largest_move(market, listing)
    yield _range(market, listing)
    yield from (_week(market, listing, weeks) for weeks in range(1, 4))


def _story(listing: Listing, day: date, title: str, text: str, change: float) -> Story:
    return Story(day, title, f"{text} {NOTICE}", (listing.company.symbol,), change)


def _results(market: Market, listing: Listing) -> Story:
    company = listing.company
    now, before = market.quarters(company.symbol)[0], market.quarters(company.symbol)[4]
    change = percent(before.revenue, now.revenue)
    return _story(
        listing,
        reported_on(company, now),
        f"{company.name} reports first-quarter revenue {'up' if change > 0 else 'down'} {abs(change)}%",
        f"{company.name} ({company.symbol}) reported revenue of {dollars(now.revenue)} and net income of "
        f"{dollars(now.net_income)} for the first quarter of 2026, or {price(now.eps_cents)} a share.",
        change,
    )


def _last_close(market: Market, listing: Listing) -> Story:
    company, quote = listing.company, market.quote(listing.company.symbol)
    verb = "rises" if quote.change > 0 else "falls" if quote.change < 0 else "is unchanged,"
    return _story(
        listing,
        LAST_SESSION,
        f"{company.name} {verb} {abs(quote.change_percent)}% to {shown(quote.price, listing)}",
        f"{company.name} ({company.symbol}) closed at {shown(quote.price, listing)} on {dated(LAST_SESSION)} "
        f"after a previous close of {shown(quote.previous_close, listing)}. The day's range was "
        f"{shown(quote.day_low, listing)} to {shown(quote.day_high, listing)}.",
        quote.change,
    )


def _largest_move(market: Market, listing: Listing) -> Story:
    company = listing.company
    quotes = [market.quote(company.symbol, day) for day in NEWS_SESSIONS[:-1]]
    quote = max(quotes, key=lambda quote: (abs(quote.change_percent), quote.session))
    verb = "jumps" if quote.change > 0 else "tumbles"
    return _story(
        listing,
        quote.session,
        f"{company.name} {verb} {abs(quote.change_percent)}%",
        f"{company.name} ({company.symbol}) went from {shown(quote.previous_close, listing)} to "
        f"{shown(quote.price, listing)} on {dated(quote.session)}, its largest move in two months.",
        quote.change,
    )


def _range(market: Market, listing: Listing) -> Story:
    company, day = listing.company, SESSIONS[-6]
    closes = [cents / listing.per_unit for cents in market.close_cents(company.symbol)[-257:-5]]
    return _story(
        listing,
        day,
        f"Where {company.name} stands within its 52-week range",
        f"At {shown(closes[-1], listing)} on {dated(day)}, {company.name} ({company.symbol}) lies between "
        f"the lowest close of the last 252 sessions, {shown(min(closes), listing)}, and the highest, "
        f"{shown(max(closes), listing)}.",
        0.0,
    )


def _week(market: Market, listing: Listing, weeks: int) -> Story:
    """Report on the five sessions that ended `weeks` weeks before the last session."""
    company, last = listing.company, len(SESSIONS) - 1 - 5 * weeks
    closes = market.close_cents(company.symbol)
    before, after = closes[last - 5], closes[last]
    change = percent(before, after)
    verb = "gains" if change > 0 else "loses"
    return _story(
        listing,
        SESSIONS[last],
        f"{company.name} {verb} {abs(change)}% in five sessions",
        f"{company.name} ({company.symbol}) closed at {shown(after / listing.per_unit, listing)} on "
        f"{dated(SESSIONS[last])}, from {shown(before / listing.per_unit, listing)} five sessions before.",
        change,
    )
