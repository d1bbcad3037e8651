"""The pages of the embedded web: companies, reports, people, sectors and days."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from turnwise.worlds.market.data.businesses import SECTORS, UNIVERSITIES
from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.market import Market, percent
from turnwise.worlds.market.data.sessions import LAST_SESSION, PREVIOUS_SESSION, SESSIONS
from turnwise.worlds.market.data.statements import IncomeStatement, reported_on
from turnwise.worlds.market.data.tables import rows
from turnwise.worlds.market.web.news import Article, dated, dollars, price
from turnwise.worlds.stream import Stream

WRAPPED_SESSIONS = SESSIONS[-20:]
"""The sessions that have a market wrap."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the embedded web."""

    url: str
    title: str
    text: str


def make_pages(market: Market, articles: Sequence[Article]) -> Iterator[Page]:
    """Yield every page. Pages with facts agree with the market; the others only share words with them."""
    for company in market.companies():
        yield _company_page(market, company)
        yield _biography(market, company)
        yield report_page(company, market.years(company.symbol)[0], market.years(company.symbol)[1])
        yield report_page(company, market.quarters(company.symbol)[0], market.quarters(company.symbol)[4])
    yield from (_sector_page(market, sector) for sector in SECTORS)
    yield from (_wrap(market, day) for day in WRAPPED_SESSIONS)
    yield from (Page(article.url, article.title, article.text) for article in articles)
    yield from (_namesake(company) for company in market.companies()[::5])
    yield from (
        Page(f"https://pages.example/{row['slug']}", row["title"], row["text"])
        for row in rows("distractors.psv")
    )


def _company_page(market: Market, company: Company) -> Page:
    quote = market.quote(company.symbol)
    earnings = (
        f"a price-earnings ratio of {quote.pe}"
        if quote.pe
        else "no price-earnings ratio, since it lost money"
    )
    return Page(
        f"https://companies.example/{company.symbol.lower()}",
        f"{company.name} ({company.symbol}) company profile",
        f"{company.description} {company.name} trades on {company.exchange} under the ticker "
        f"{company.symbol}. It belongs to the {company.sector} sector and the {company.industry} industry "
        f"(SIC {company.sic_code}). The chief executive officer (CEO) is {company.ceo}, and the company has "
        f"{company.employees:,} full-time employees. At the close of {dated(LAST_SESSION)} a share cost "
        f"${quote.price:.2f}, a change of {quote.change_percent}% from the previous close of "
        f"${quote.previous_close:.2f} on {dated(PREVIOUS_SESSION)}. With {company.shares:,} shares "
        f"outstanding the market capitalisation is {dollars(quote.market_cap)}, at {earnings}. Website: "
        f"{company.website}",
    )


def _biography(market: Market, company: Company) -> Page:
    stream = Stream(market.seed, "biography", company.symbol)
    born = stream.integer(1956, 1982)
    joined = stream.integer(max(company.founded, born + 24), 2022)
    return Page(
        f"https://people.example/{company.ceo.lower().replace(' ', '-')}",
        f"{company.ceo}, CEO of {company.name}: biography",
        f"{company.ceo} (born {born}) is the chief executive officer (CEO) of {company.name} "
        f"({company.symbol}), a company in the {company.sector} sector. {company.ceo.split()[0]} studied at "
        f"{stream.pick(UNIVERSITIES)}, joined {company.name} in {joined} and lives near {company.city}.",
    )


def report_page(company: Company, now: IncomeStatement, before: IncomeStatement) -> Page:
    """Describe a statement in words and compare it with the same period a year earlier."""
    period = f"fiscal year {now.fiscal_year}" if now.period == "FY" else f"{now.period} {now.fiscal_year}"
    return Page(
        f"https://filings.example/{company.symbol.lower()}/{now.fiscal_year}-{now.period.lower()}",
        f"{company.name} {period} report: revenue, net income and EPS",
        f"{company.name} ({company.symbol}) income statement for {period}, ended {dated(now.ends_on)}, "
        f"published {dated(reported_on(company, now))}. Revenue was {dollars(now.revenue)}, a change of "
        f"{percent(before.revenue, now.revenue)}% from {dollars(before.revenue)} a year earlier. Cost of "
        f"revenue was {dollars(now.cost_of_revenue)} and gross profit {dollars(now.gross_profit)}. "
        f"Operating expenses were {dollars(now.operating_expenses)} and operating income "
        f"{dollars(now.operating_income)}. Net income was {dollars(now.net_income)}, which is earnings per "
        f"share (EPS) of {price(now.eps_cents)}.",
    )


def _sector_page(market: Market, sector: str) -> Page:
    quotes = [market.quote(company.symbol) for company in market.companies() if company.sector == sector]
    by_size = sorted(quotes, key=lambda quote: -quote.market_cap)
    gainer = max(quotes, key=lambda quote: (quote.change_percent, quote.symbol))
    largest = ", ".join(
        f"{quote.name} ({quote.symbol}, {dollars(quote.market_cap)})" for quote in by_size[:5]
    )
    industries = sorted({company.industry for company in market.companies() if company.sector == sector})
    return Page(
        f"https://sectors.example/{sector.lower().replace(' ', '-')}",
        f"{sector} sector overview",
        f"The {sector} sector has {len(quotes)} listed companies in these industries: "
        f"{'; '.join(industries)}. The five largest by market capitalisation on {dated(LAST_SESSION)} are "
        f"{largest}. The best of the session was {gainer.name} ({gainer.symbol}) with "
        f"{gainer.change_percent}%.",
    )


def _wrap(market: Market, day: date) -> Page:
    gainers, losers = market.gainers(day), market.losers(day)
    best, worst = (
        ", ".join(f"{quote.name} ({quote.symbol}) {quote.change_percent}%" for quote in quotes[:3])
        for quotes in (gainers, losers)
    )
    return Page(
        f"https://wraps.example/{day.isoformat()}",
        f"Market wrap for {dated(day)}",
        f"On {dated(day)}, {len(gainers)} of {len(market.companies())} companies rose and {len(losers)} "
        f"fell. The largest gainers were {best}. The largest losers were {worst}.",
    )


def _namesake(company: Company) -> Page:
    """Return a page that shares a company's name and says nothing about the company."""
    root = company.name.split()[0]
    return Page(
        f"https://atlas.example/{root.lower()}-river",
        f"{root} (river)",
        f"The {root} is a slow river in the northern lowlands, known for its reed beds and a spring boat "
        "race. It has no connection with the companies that carry the same name.",
    )
