"""Answer a question about the market in one sentence, or None if the facts do not say."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.listings import Listing
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.data.sessions import CLOCK, LAST_SESSION, PREVIOUS_SESSION
from turnwise.worlds.market.data.statements import IncomeStatement
from turnwise.worlds.market.web.listed_news import NOTICE, shown
from turnwise.worlds.market.web.news import dated, dollars, price
from turnwise.worlds.market.web.questions import Question, listings_named, read_question

Tell = Callable[[Market, Company], str]


def _as_of(company: Company, name: str, value: str) -> str:
    return f"The {name} of {company.name} ({company.symbol}) on {dated(LAST_SESSION)} was {value}."


def _dollars(market: Market, company: Company, amount: float) -> str:
    """Format a price with as many decimals as its bars have."""
    listing = market.listing(company.symbol)
    return shown(amount, listing) if listing else f"${amount:,.2f}"


def _ratio(market: Market, company: Company) -> str:
    ratio = market.quote(company.symbol).pe
    if ratio is None:
        return f"{company.name} has no P/E ratio, since it lost money in the last four quarters."
    return _as_of(company, "P/E ratio", f"{ratio:.2f}")


def _previous(market: Market, company: Company) -> str:
    close = market.quote(company.symbol).previous_close
    named, shown_close = f"{company.name} ({company.symbol})", _dollars(market, company, close)
    return f"The previous close of {named}, on {dated(PREVIOUS_SESSION)}, was {shown_close}."


def _change(market: Market, company: Company) -> str:
    quote = market.quote(company.symbol)
    return (
        f"{company.name} ({company.symbol}) changed by {quote.change_percent}% on {dated(LAST_SESSION)}, to "
        f"{_dollars(market, company, quote.price)}."
    )


PROFILE: tuple[tuple[str, str, Tell], ...] = (
    (
        r"ceo|chief executive|who (leads|runs|heads)|led by",
        "ceo", lambda _, c: f"The CEO of {c.name} is {c.ceo}.",
    ),
    (r"ticker|symbol", "symbol", lambda _, c: f"The ticker of {c.name} is {c.symbol}."),
    (r"industry", "industry", lambda _, c: f"{c.name} is in the {c.industry} industry."),
    (r"sector", "sector", lambda _, c: f"{c.name} is in the {c.sector} sector."),
    (
        r"headquarter|based|located|which city",
        "city", lambda _, c: f"{c.name} is based in {c.city}, {c.country}.",
    ),
    (r"country", "country", lambda _, c: f"{c.name} is from {c.country}."),
    (
        r"employ|staff|people|workers",
        "employees", lambda _, c: f"{c.name} has {c.employees:,} full-time employees.",
    ),
    (r"website|homepage|web site", "website", lambda _, c: f"The website of {c.name} is {c.website}"),
    (r"founded|established", "founded", lambda _, c: f"{c.name} was founded in {c.founded}."),
    (
        r"listed|ipo|go public",
        "ceo", lambda _, c: f"{c.name} was listed on {c.exchange} on {dated(c.listed_on)}.",
    ),
    (r"exchange", "exchange", lambda _, c: f"{c.name} trades on {c.exchange}."),
    (
        r"shares outstanding|how many shares",
        "shares", lambda _, c: f"{c.name} has {c.shares:,} shares outstanding.",
    ),
    (
        r"\bsic\b",
        "sic_code", lambda _, c: f"The SIC code of {c.name} is {c.sic_code} ({c.sic_description}).",
    ),
    (
        r"market cap",
        "shares", lambda m, c: _as_of(c, "market cap", dollars(m.quote(c.symbol).market_cap)),
    ),
    (r"p/e|\bpe\b|price[- ](to[- ])?earnings", "industry", _ratio),
    (r"previous close|previous session", "symbol", _previous),
    (r"volume", "symbol", lambda m, c: _as_of(c, "volume", f"{m.quote(c.symbol).volume:,} shares")),
    (r"change|percent|gain|lose|lost|rise|fall|fell|rose", "symbol", _change),
    (
        r"price|quote|clos|trad|worth|cost",
        "symbol", lambda m, c: _as_of(c, "closing price", _dollars(m, c, m.quote(c.symbol).price)),
    ),
    (r"which company|what company|name", "symbol", lambda _, c: f"{c.symbol} is {c.name}."),
    (
        r"product|sell|make|what (is|does)|tell",
        "name", lambda _, c: c.summary,
    ),
)  # fmt: skip
"""Rows of (pattern, required field, answer). The first pattern that matches wins, so specific words come
before general ones. A row is skipped if the company's required field is empty: a fund has no CEO."""

ACCOUNTS: tuple[tuple[str, str, Callable[[IncomeStatement], str]], ...] = (
    (r"\beps\b|earnings per share", "earnings per share", lambda s: price(s.eps_cents)),
    (r"cost of (revenue|sales|goods)", "cost of revenue", lambda s: dollars(s.cost_of_revenue)),
    (r"gross profit", "gross profit", lambda s: dollars(s.gross_profit)),
    (r"operating (expenses|costs)", "operating expenses", lambda s: dollars(s.operating_expenses)),
    (r"operating (income|profit)", "operating income", lambda s: dollars(s.operating_income)),
    (r"net income|net profit|net loss|profit", "net income", lambda s: dollars(s.net_income)),
    (r"revenue|sales|turnover", "revenue", lambda s: dollars(s.revenue)),
)


@dataclass(frozen=True, slots=True)
class _Measure:
    pattern: str
    name: str
    value: Callable[[Market, Company], float | None]
    show: Callable[[float], str]


MEASURES = (
    _Measure(
        r"market cap|valuable|largest compan|biggest compan",
        "market cap", lambda m, c: m.quote(c.symbol).market_cap, lambda v: dollars(int(v)),
    ),
    _Measure(
        r"p/e|\bpe\b|price[- ](to[- ])?earnings",
        "P/E", lambda m, c: m.quote(c.symbol).pe, lambda v: f"{v:.2f}",
    ),
    _Measure(
        r"employ|staff|workers", "number of employees", lambda _, c: c.employees, lambda v: f"{int(v):,}"
    ),
    _Measure(
        r"revenue|sales", "2025 revenue", lambda m, c: m.years(c.symbol)[0].revenue, lambda v: dollars(int(v))
    ),
    _Measure(
        r"net income|profit",
        "2025 net income", lambda m, c: m.years(c.symbol)[0].net_income, lambda v: dollars(int(v)),
    ),
    _Measure(
        r"volume|traded", "volume", lambda m, c: m.quote(c.symbol).volume, lambda v: f"{int(v):,} shares"
    ),
    _Measure(
        r"gain|rose|rise|change|perform|lost|lose|fell|fall|drop",
        "change of the last session", lambda m, c: m.quote(c.symbol).change_percent, lambda v: f"{v:.2f}%",
    ),
    _Measure(r"price|expensive", "share price", lambda m, c: m.quote(c.symbol).price, lambda v: f"${v:,.2f}"),
)  # fmt: skip

MOST = r"\b(largest|biggest|highest|most|greatest|top|best|larger|bigger|higher|more|greater)\b"
LEAST = r"\b(smallest|lowest|least|fewest|worst|smaller|lower|less|fewer)\b"


def answer(market: Market, text: str) -> str | None:
    """Answer a question in one sentence from the market's facts; None if they do not say."""
    named = listings_named(market, text)
    return _listed_answer(market, named, text) if named else _invented_answer(market, text)


def _invented_answer(market: Market, text: str) -> str | None:
    question = read_question(market.companies(), text)
    if question.led_by:
        return _led(market, question, question.led_by[0])
    if re.search(r"markets? (is |are )?(now |still )?(open|closed|status)", question.text):
        return f"It is {CLOCK:%H:%M} in New York on {dated(CLOCK.date())}: the regular session is closed."
    if re.search(rf"{MOST}|{LEAST}", question.text) and len(question.companies) != 1:
        return _superlative(market, question)
    if question.companies:
        return _about(market, question, question.companies[0])
    if question.namesakes:
        namesakes = ", ".join(f"{company.name} ({company.symbol})" for company in question.namesakes)
        return f"More than one company may be meant: {namesakes}."
    return None


def _listed_answer(market: Market, named: Sequence[Listing], text: str) -> str | None:
    """Answer a question about the real listings that it names."""
    question = read_question([listing.company for listing in named], text)
    question = dataclasses.replace(question, companies=tuple(listing.company for listing in named), led_by=())
    is_ranking = len(named) > 1 and re.search(rf"{MOST}|{LEAST}", question.text)
    answer = _superlative(market, question) if is_ranking else _about(market, question, question.companies[0])
    return f"{answer} {NOTICE}" if answer else None


def _led(market: Market, question: Question, company: Company) -> str:
    """Answer a question that names a chief executive: a fact about the company, or which company it is."""
    about_company = re.sub(r"ceo|chief executive|led by|leads|(which|what) company", " ", question.text)
    answer = _about(market, dataclasses.replace(question, text=about_company), company)
    return answer or f"{company.ceo} is the CEO of {company.name} ({company.symbol})."


def _about(market: Market, question: Question, company: Company) -> str | None:
    for pattern, name, show in ACCOUNTS:
        if re.search(pattern, question.text) and market.quarters(company.symbol):
            return _accounts(market, question, company, name, show)
    if question.day is not None:
        return _close_on(market, question, company)
    fitting = (
        tell
        for pattern, needed, tell in PROFILE
        if re.search(pattern, question.text) and getattr(company, needed)
    )
    tell = next(fitting, None)
    return tell(market, company) if tell else None


def _accounts(
    market: Market, question: Question, company: Company, name: str, show: Callable[[IncomeStatement], str]
) -> str:
    if question.quarter is None and not re.search(r"quarter", question.text):
        statements = market.years(company.symbol)
    else:
        statements = market.quarters(company.symbol)
    fitting = [
        statement
        for statement in statements
        if (question.year is None or statement.fiscal_year == question.year)
        and (question.quarter is None or statement.period == f"Q{question.quarter}")
    ]
    if not fitting:
        return (
            f"There is no such statement of {company.name}: its years run from 2021 to 2025, its quarters "
            "from Q1 2021 to Q1 2026."
        )
    chosen = fitting[0]
    period = (
        f"fiscal year {chosen.fiscal_year}"
        if chosen.period == "FY"
        else f"{chosen.period} {chosen.fiscal_year}"
    )
    return f"The {name} of {company.name} ({company.symbol}) for {period} was {show(chosen)}."


def _close_on(market: Market, question: Question, company: Company) -> str:
    day = question.day
    assert day is not None
    if day not in market.sessions(company.symbol, "daily"):
        known = market.sessions(company.symbol, "daily")
        return (
            f"There was no session on {day.isoformat()}; sessions run from {known[0].isoformat()} to "
            f"{LAST_SESSION.isoformat()} on weekdays that are not holidays."
        )
    bar = market.daily_bar(company.symbol, day)
    return (
        f"{company.name} ({company.symbol}) closed at {_dollars(market, company, bar.close)} on {dated(day)}."
    )


def _superlative(market: Market, question: Question) -> str | None:
    measure = next((measure for measure in MEASURES if re.search(measure.pattern, question.text)), None)
    pool: Sequence[Company] = question.companies or question.group
    if measure is None or not pool:
        return None
    falls = re.search(r"lost|lose|fell|fall|drop", question.text) is not None
    is_least = (re.search(LEAST, question.text) is not None) != falls
    known = [(value, company) for company in pool if (value := measure.value(market, company)) is not None]
    if not known:
        return None
    sign = 1 if is_least else -1
    value, company = min(known, key=lambda pair: (sign * pair[0], pair[1].symbol))
    among = "of the companies named" if question.companies else question.group_name
    kind = "lowest" if is_least else "highest"
    return f"{company.name} ({company.symbol}) has the {kind} {measure.name} {among}: {measure.show(value)}."
