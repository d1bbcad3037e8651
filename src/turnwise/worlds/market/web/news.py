"""News articles that state only facts of the market, with their sentiment."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from turnwise.worlds.market.data.businesses import PUBLISHERS
from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.market import Market, percent
from turnwise.worlds.market.data.sessions import LAST_SESSION, NEW_YORK, SESSIONS
from turnwise.worlds.market.data.statements import reported_on
from turnwise.worlds.stream import Stream

NEWS_SESSIONS = SESSIONS[-40:]
"""The sessions that articles about share prices cover; reports of the first quarter may be older."""


@dataclass(frozen=True, slots=True)
class Article:
    """One story; the first ticker is the company it is about."""

    published: datetime
    """In New York time."""
    publisher: str
    title: str
    text: str
    tickers: tuple[str, ...]
    sentiment: str
    """positive, negative or neutral: the direction of the fact in the headline."""
    url: str

    @property
    def published_utc(self) -> str:
        return self.published.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Story:
    """A fact about a day, before it is given a publisher and a time."""

    day: date
    title: str
    text: str
    tickers: tuple[str, ...]
    change: float
    after_close: bool = True


def make_articles(market: Market) -> tuple[Article, ...]:
    """Generate all articles, newest first."""
    articles = []
    for company in market.companies():
        stream = Stream(market.seed, "news", company.symbol)
        for number, story in enumerate(_stories(market, company, stream)):
            articles.append(publish(story, number, stream))
    return tuple(newest_first(articles))


def newest_first(articles: Iterable[Article]) -> list[Article]:
    return sorted(articles, key=lambda article: (article.published, article.url), reverse=True)


def dollars(amount: int) -> str:
    """Format whole dollars in full: -$1,234,000."""
    return f"{'-' if amount < 0 else ''}${abs(amount):,}"


def price(cents: int) -> str:
    """Format cents as dollars and cents: -$0.12."""
    return f"{'-' if cents < 0 else ''}${abs(cents) / 100:,.2f}"


def dated(day: date) -> str:
    """Format a day as June 30, 2026 (strftime would follow the locale)."""
    months = "January February March April May June July August September October November December"
    return f"{months.split()[day.month - 1]} {day.day}, {day.year}"


def _stories(market: Market, company: Company, stream: Stream) -> Iterator[Story]:
    yield _results(market, company)
    yield _largest_move(market, company)
    yield _last_close(market, company)
    yield _yearly_range(market, company)
    yield _month(market, company)
    yield _rivals(market, company, stream)
    yield _portrait(company, stream)


def publish(story: Story, number: int, stream: Stream) -> Article:
    # After-close stories of the last session must be published before the frozen clock, 16:30.
    minutes = (
        stream.integer(16 * 60 + 2, 16 * 60 + 26) if story.after_close else stream.integer(8 * 60, 15 * 60)
    )
    at = datetime.combine(story.day, time(), NEW_YORK) + timedelta(minutes=minutes, seconds=stream.below(60))
    slug = "".join(letter if letter.isalnum() else "-" for letter in story.title.lower())[:48].strip("-")
    return Article(
        published=at,
        publisher=stream.pick(PUBLISHERS),
        title=story.title,
        text=story.text,
        tickers=story.tickers,
        sentiment="positive" if story.change > 0 else "negative" if story.change < 0 else "neutral",
        url=f"https://news.example/{story.day.isoformat()}/{slug}-{story.tickers[0].lower()}{number}",
    )


def _results(market: Market, company: Company) -> Story:
    now, before = market.quarters(company.symbol)[0], market.quarters(company.symbol)[4]
    change = percent(before.revenue, now.revenue)
    verb = "up" if change > 0 else "down"
    outcome = "earned" if now.net_income >= 0 else "lost"
    return Story(
        reported_on(company, now),
        f"{company.name} reports first-quarter revenue {verb} {abs(change)}% from a year ago",
        f"{company.name} ({company.symbol}) reported revenue of {dollars(now.revenue)} for the first "
        f"quarter of 2026, against {dollars(before.revenue)} a year earlier. It {outcome} "
        f"{dollars(abs(now.net_income))}, or {price(abs(now.eps_cents))} a share. "
        f'"Demand for our {company.products[0]} set the pace," said chief executive {company.ceo}.',
        (company.symbol,),
        change,
    )


def _largest_move(market: Market, company: Company) -> Story:
    quotes = [market.quote(company.symbol, day) for day in NEWS_SESSIONS[:-1]]
    quote = max(quotes, key=lambda quote: (abs(quote.change_percent), quote.session))
    verb = "jump" if quote.change > 0 else "tumble"
    return Story(
        quote.session,
        f"{company.name} shares {verb} {abs(quote.change_percent)}% to ${quote.price:.2f}",
        f"Shares of {company.name} ({company.symbol}) closed at ${quote.price:.2f} on "
        f"{dated(quote.session)}, from ${quote.previous_close:.2f} the session before. {quote.volume:,} "
        "shares changed hands.",
        (company.symbol,),
        quote.change,
    )


def _last_close(market: Market, company: Company) -> Story:
    quote = market.quote(company.symbol)
    verb = "rises" if quote.change > 0 else "falls" if quote.change < 0 else "is unchanged"
    moved = f"{verb} {abs(quote.change_percent)}%" if quote.change else verb
    return Story(
        LAST_SESSION,
        f"{company.name} {moved} to close the quarter at ${quote.price:.2f}",
        f"{company.name} ({company.symbol}) ended the session of {dated(LAST_SESSION)} at "
        f"${quote.price:.2f}, after a previous close of ${quote.previous_close:.2f}. The day's range was "
        f"${quote.day_low:.2f} to ${quote.day_high:.2f}, and the company is now worth "
        f"{dollars(quote.market_cap)}.",
        (company.symbol,),
        quote.change,
    )


def _yearly_range(market: Market, company: Company) -> Story:
    day = SESSIONS[-6]
    closes = market.close_cents(company.symbol)[-257:-5]
    low, high, last = min(closes), max(closes), closes[-1]
    fall = percent(high, last)
    return Story(
        day,
        f"Where {company.name} stands within its 52-week range",
        f"At ${last / 100:.2f} on {dated(day)}, {company.name} ({company.symbol}) is {abs(fall)}% under its "
        f"highest close of the last 252 sessions, ${high / 100:.2f}. The lowest was ${low / 100:.2f}.",
        (company.symbol,),
        0.0,
    )


def _month(market: Market, company: Company) -> Story:
    first = next(index for index, day in enumerate(SESSIONS) if day >= date(2026, 5, 1))
    last = max(index for index, day in enumerate(SESSIONS) if day <= date(2026, 5, 31))
    closes = market.close_cents(company.symbol)
    change = percent(closes[first - 1], closes[last])
    verb = "gained" if change > 0 else "lost"
    return Story(
        SESSIONS[last],
        f"{company.name} {verb} {abs(change)}% in May",
        f"{company.name} ({company.symbol}), based in {company.city}, {company.country}, went from "
        f"${closes[first - 1] / 100:.2f} at the end of April to ${closes[last] / 100:.2f} at the end of May.",
        (company.symbol,),
        change,
    )


def _rivals(market: Market, company: Company, stream: Stream) -> Story:
    peers = [other for other in market.companies() if other.industry == company.industry and other != company]
    rival = stream.pick(peers)
    ours, theirs = market.years(company.symbol)[0], market.years(rival.symbol)[0]
    larger, smaller = (company, rival) if ours.revenue >= theirs.revenue else (rival, company)
    return Story(
        stream.pick(NEWS_SESSIONS[:-6]),
        f"{company.name} and {rival.name} compared",
        f"With 2025 revenue of {dollars(max(ours.revenue, theirs.revenue))}, {larger.name} "
        f"({larger.symbol}) is larger than {smaller.name} ({smaller.symbol}), which had "
        f"{dollars(min(ours.revenue, theirs.revenue))}. {company.ceo} leads {company.name}; {rival.ceo} "
        f"leads {rival.name}.",
        (company.symbol, rival.symbol),
        0.0,
        after_close=False,
    )


def _portrait(company: Company, stream: Stream) -> Story:
    return Story(
        stream.pick(NEWS_SESSIONS[:-6]),
        f"Inside {company.name}: {company.employees:,} people and {company.products[0]}",
        f"Founded in {company.founded}, {company.name} ({company.symbol}) employs {company.employees:,} "
        f"people. From {company.city} it sells {', '.join(company.products[:-1])} and "
        f"{company.products[-1]}. It has been listed on {company.exchange} since {dated(company.listed_on)}.",
        (company.symbol,),
        0.0,
        after_close=False,
    )


def about(articles: Sequence[Article], symbols: Sequence[str]) -> list[Article]:
    """Return the articles that name any of the symbols, or all articles if there are no symbols."""
    return [article for article in articles if not symbols or any(s in article.tickers for s in symbols)]
