"""The web pages about a real listing: its profile, its reports and its news."""

from collections.abc import Iterator

from turnwise.worlds.market.data.listings import Listing
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.data.sessions import LAST_SESSION
from turnwise.worlds.market.web.documents import Page, report_page
from turnwise.worlds.market.web.listed_news import NOTICE, listed_articles, shown
from turnwise.worlds.market.web.news import dated, dollars

KINDS = {
    "company": "a listed company",
    "fund": "an exchange-traded fund",
    "index": "an index",
    "crypto": "a cryptocurrency, priced in dollars",
    "currency": "a currency pair",
    "future": "a futures contract",
}


def listed_pages(market: Market, listing: Listing) -> Iterator[Page]:
    """Yield the pages about a listing; each ends with a notice that its figures are synthetic."""
    company = listing.company
    yield _profile(market, listing)
    if listing.accounts is not None:
        years, quarters = market.years(company.symbol), market.quarters(company.symbol)
        for page in (
            report_page(company, years[0], years[1]),
            report_page(company, quarters[0], quarters[4]),
        ):
            yield Page(page.url, page.title, f"{page.text} {NOTICE}")
    for article in listed_articles(market, listing):
        yield Page(article.url, article.title, article.text)


def _profile(market: Market, listing: Listing) -> Page:
    company, quote = listing.company, market.quote(listing.company.symbol)
    known_as = ", ".join(listing.names[1:])
    text = (
        f"{company.name} ({company.symbol}) is {KINDS[listing.kind]}"
        f"{f', also known as {known_as}' if known_as else ''}. At the close of {dated(LAST_SESSION)} the "
        f"price of {company.symbol} was {shown(quote.price, listing)}, a change of {quote.change_percent}% "
        f"from the previous close of {shown(quote.previous_close, listing)}."
    )
    if listing.accounts is not None:
        earnings = f"a price-earnings ratio of {quote.pe}" if quote.pe else "no price-earnings ratio"
        text += (
            f" It belongs to the {company.sector} sector and the {company.industry} industry. Its chief "
            f"executive officer (CEO) is {company.ceo}, and it has {company.employees:,} full-time "
            f"employees. The market capitalisation is {dollars(quote.market_cap)}, at {earnings}."
        )
    return Page(
        f"https://companies.example/{company.symbol.lower()}",
        f"{company.name} ({company.symbol}) profile",
        f"{text} {NOTICE}",
    )
