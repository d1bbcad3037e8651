"""Families of two or three calls: a company found by its name, a figure found in a list, two compared."""

from typing import Any

from turnwise.tasks.proof.answers import NUMBER, found, looked_up, plain, row_where
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results, call
from turnwise.types import Answer, Difficulty
from turnwise.worlds.market.families.kit import Family, Material
from turnwise.worlds.market.families.lookups import (
    FIGURES,
    PROFILE_FACTS,
    fact_of,
    figure_of,
    known_fact,
    known_figure,
)

TICKER_ONLY = "Answer with the ticker only."


def search(name: str) -> PlanStep:
    """Return the step that searches for a company's ticker by its name."""
    return call("fmp_search_ticker", query=name)


def symbol_in(rows: Any, name: str) -> str:
    """Return the ticker of the search result with exactly this name."""
    symbol: str = row_where(rows, "name", name)["symbol"]
    return symbol


def _profile(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(PROFILE_FACTS))
    return Case(
        words={"name": company.name, "what": what},
        form=PROFILE_FACTS[what][2],
        turns=(
            (search(company.name),),
            (PlanStep("fmp_get_company_profile", lambda r: {"symbol": symbol_in(r[0], company.name)}),),
        ),
        conclude=lambda results: fact_of(results[1], what),
        known=known_fact(company, what),
    )


PROFILE_BY_NAME = Family(
    name="profile_by_name",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp",),
    required_tools=("fmp_get_company_profile",),
    phrasings=(
        "Find the ticker of {name}, then read its FMP profile: what is the {what}?",
        "Which {what} does FMP's company profile give for {name}? You will need its ticker first.",
        "I know the company only as {name}. Get the {what} from its FMP profile.",
        "Search FMP for {name} and report the {what} from the company profile.",
        "Look {name} up on FMP and tell me the {what} that its profile shows.",
        "For the company called {name}, what {what} is in the FMP profile?",
    ),
    draft=_profile,
)


def _figure(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(FIGURES))
    return Case(
        words={"name": company.name, "what": what},
        form=NUMBER,
        turns=(
            (search(company.name),),
            (PlanStep("fmp_get_quote", lambda r: {"symbol": symbol_in(r[0], company.name)}),),
        ),
        conclude=lambda results: figure_of(results[1], what),
        known=known_figure(material.market.quote(company.symbol), what),
    )


FIGURE_BY_NAME = Family(
    name="figure_by_name",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp",),
    required_tools=("fmp_get_quote",),
    phrasings=(
        "What is the {what} of {name} in its FMP quote? Find the ticker first.",
        "Search FMP for {name}, take its quote, and tell me the {what}.",
        "I need the {what} from the FMP quote of {name}.",
        "Get the FMP quote of the company {name} and give me the {what}.",
        "{name} is listed under a ticker I do not know. What {what} does its FMP quote show?",
        "Please find {name} on FMP and read the {what} from its quote.",
    ),
    draft=_figure,
)

_LINES = {
    "revenue": ("revenue", "revenue"),
    "gross profit": ("grossProfit", "gross_profit"),
    "operating income": ("operatingIncome", "operating_income"),
    "net income": ("netIncome", "net_income"),
}


def _statement(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(_LINES))
    key, attribute = _LINES[what]
    statement = material.pick(material.market.years(company.symbol))

    def conclude(results: Results) -> Conclusion:
        value = row_where(results[0], "fiscalYear", str(statement.fiscal_year))[key]
        return Conclusion(looked_up(value, decimals=0, unit="$"), plain(value))

    return Case(
        words={"symbol": company.symbol, "what": what, "year": str(statement.fiscal_year)},
        form="Answer with the number only, in whole dollars.",
        turns=((call("fmp_get_income_statement", symbol=company.symbol, period="annual", limit=5),),),
        conclude=conclude,
        known=getattr(statement, attribute),
    )


INCOME_FIGURE = Family(
    name="income_figure",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp",),
    required_tools=("fmp_get_income_statement",),
    phrasings=(
        "What was the {what} of {symbol} in fiscal year {year}, by its FMP income statement?",
        "Read the annual income statements of {symbol} on FMP: {what} for {year}?",
        "From FMP's income statements, give me {symbol}'s {what} for the year {year}.",
        "How large was {symbol}'s {what} in {year}? Use the FMP income statement.",
        "Find {symbol}'s {year} {what} in the income statements FMP has.",
        "According to the FMP income statement for {year}, what {what} did {symbol} report?",
    ),
    draft=_statement,
)


def _larger(material: Material) -> Case:
    first, second = material.pick_two(material.companies)

    def conclude(results: Results) -> Conclusion:
        symbol = max(results, key=lambda quote: quote["marketCap"])["symbol"]
        return Conclusion(Answer(symbol), symbol)

    caps = {company.symbol: material.market.quote(company.symbol).market_cap for company in (first, second)}
    if caps[first.symbol] == caps[second.symbol]:
        raise LookupError("neither is larger")
    return Case(
        words={"first": first.symbol, "second": second.symbol},
        form=TICKER_ONLY,
        turns=((call("fmp_get_quote", symbol=first.symbol), call("fmp_get_quote", symbol=second.symbol)),),
        conclude=conclude,
        known=max(caps, key=lambda symbol: caps[symbol]),
    )


LARGER_MARKET_CAP = Family(
    name="larger_market_cap",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp",),
    required_tools=("fmp_get_quote",),
    phrasings=(
        "Compare the FMP quotes of {first} and {second}: which has the larger market cap?",
        "Which is worth more by market cap in its FMP quote, {first} or {second}?",
        "{first} or {second}: whose market cap is bigger? Use their FMP quotes.",
        "Take FMP quotes for {first} and {second} and name the one with the higher market cap.",
        "Of {first} and {second}, tell me the larger one by market cap, from quotes on FMP.",
        "By FMP's quotes, does {first} or {second} have the greater market cap?",
    ),
    draft=_larger,
)

_MOVERS = {"gainers": "fmp_get_market_gainers", "losers": "fmp_get_market_losers"}
_MOVER_FACTS = {
    "ticker": ("symbol", "symbol", TICKER_ONLY),
    "price": ("price", "price", NUMBER),
    "percentage change": (
        "changesPercentage",
        "change_percent",
        "Answer with the percentage only, with its sign.",
    ),
}
_NUM_LISTED = 20


def _mover(material: Material, kind: str) -> Case:
    what = material.pick(list(_MOVER_FACTS))
    key, attribute, form = _MOVER_FACTS[what]
    listed = list(material.market.gainers() if kind == "gainers" else material.market.losers())[:_NUM_LISTED]
    own = {company.symbol for company in material.companies}
    place, quote = material.pick([pair for pair in enumerate(listed) if pair[1].symbol in own])

    def conclude(results: Results) -> Conclusion:
        value = results[0][place][key]
        if isinstance(value, str):
            return Conclusion(Answer(value), value)
        return Conclusion(looked_up(value, unit="$" if key == "price" else "%"), plain(value))

    return Case(
        words={"place": str(place + 1), "what": what},
        form=form,
        turns=((call(_MOVERS[kind], limit=place + 1),),),
        conclude=conclude,
        known=getattr(quote, attribute),
    )


GAINER_AT_PLACE = Family(
    name="gainer_at_place",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp",),
    required_tools=("fmp_get_market_gainers",),
    phrasings=(
        "What is the {what} of the stock at place {place} of FMP's list of today's gainers?",
        "Look at today's largest gainers on FMP. Number {place}: what is its {what}?",
        "In FMP's ranking of gainers, give me the {what} of the one in position {place}.",
        "Counting from the top of FMP's market gainers, what {what} has number {place}?",
        "Fetch FMP's market gainers and tell me the {what} of rank {place}.",
        "Which {what} belongs to entry {place} of the gainers that FMP lists?",
    ),
    draft=lambda material: _mover(material, "gainers"),
)

LOSER_AT_PLACE = Family(
    name="loser_at_place",
    difficulty=Difficulty.MEDIUM,
    servers=("fmp",),
    required_tools=("fmp_get_market_losers",),
    phrasings=(
        "What is the {what} of the stock at place {place} of FMP's list of today's losers?",
        "Look at today's largest losers on FMP. Number {place}: what is its {what}?",
        "In FMP's ranking of losers, give me the {what} of the one in position {place}.",
        "Counting from the top of FMP's market losers, what {what} has number {place}?",
        "Fetch FMP's market losers and tell me the {what} of rank {place}.",
        "Which {what} belongs to entry {place} of the losers that FMP lists?",
    ),
    draft=lambda material: _mover(material, "losers"),
)


def _biography(material: Material) -> Case:
    company = material.pick(material.companies)

    def conclude(results: Results) -> Conclusion:
        ceo = results[1]["ceo"]
        pages = [page for page in results[2]["results"] if page["title"].startswith(ceo)]
        year = found(r"\(born (\d{4})\)", " ".join(page["content"] for page in pages))
        return Conclusion(Answer(year), year)

    return Case(
        words={"name": company.name},
        form="Answer with the year only.",
        turns=(
            (search(company.name),),
            (PlanStep("fmp_get_company_profile", lambda r: {"symbol": symbol_in(r[0], company.name)}),),
            (PlanStep("tavily_search", lambda r: {"query": f"{r[1]['ceo']} biography born"}),),
        ),
        conclude=conclude,
    )


CEO_BIRTH_YEAR = Family(
    name="ceo_birth_year",
    difficulty=Difficulty.HARD,
    servers=("fmp", "tavily"),
    required_tools=("tavily_search",),
    phrasings=(
        "Find out who leads {name} from FMP, then search the web with Tavily: when was that person born?",
        "In which year was the CEO of {name} born? FMP knows the CEO, a Tavily web search knows the rest.",
        "Search the web (Tavily search) for the biography of {name}'s CEO and give the year of birth.",
        "Who runs {name}? Look the person up with a Tavily search and tell me the birth year.",
        "Get the CEO of {name} and use Tavily's web search to find that CEO's year of birth.",
        "The head of {name} was born in which year? Use a Tavily search for the biography.",
    ),
    draft=_biography,
)

SEARCHES = (
    *(PROFILE_BY_NAME, FIGURE_BY_NAME, INCOME_FIGURE, LARGER_MARKET_CAP),
    *(GAINER_AT_PLACE, LOSER_AT_PLACE, CEO_BIRTH_YEAR),
)
