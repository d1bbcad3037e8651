"""Families of two or three calls: a company found by its name, a figure found in a list, two compared."""

from turnwise.tasks.proof.answers import NUMBER, found, row_where
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results, call
from turnwise.worlds.market.families.kit import Draft, Material
from turnwise.worlds.market.families.lookups import (
    FIGURES,
    PROFILE_FACTS,
    fact_of,
    figure_of,
    known_fact,
    known_figure,
)
from turnwise.worlds.market.families.steps import number_of, of_company, read_quote, search, text_of

TICKER_ONLY = "Answer with the ticker only."


def _profile(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(PROFILE_FACTS))
    return Case(
        words={"name": company.name, "what": what},
        form=PROFILE_FACTS[what][2],
        turns=(
            (search(company.name),),
            (of_company("fmp_get_company_profile", company.name),),
        ),
        conclude=lambda results: fact_of(results[1], what),
        known=known_fact(company, what),
    )


def _figure(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(FIGURES))
    return Case(
        words={"name": company.name, "what": what},
        form=NUMBER,
        turns=(
            (search(company.name),),
            (of_company("fmp_get_quote", company.name),),
        ),
        conclude=lambda results: figure_of(results[1], what),
        known=known_figure(material.market.quote(company.symbol), what),
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
        return number_of(value, decimals=0, unit="$")

    return Case(
        words={"symbol": company.symbol, "what": what, "year": str(statement.fiscal_year)},
        form="Answer with the number only, in whole dollars.",
        turns=((call("fmp_get_income_statement", symbol=company.symbol, period="annual", limit=5),),),
        conclude=conclude,
        known=getattr(statement, attribute),
    )


def _larger(material: Material) -> Case:
    first, second = material.pick_two(material.companies)

    def conclude(results: Results) -> Conclusion:
        symbol = max(results, key=lambda quote: quote["marketCap"])["symbol"]
        return text_of(symbol)

    caps = {company.symbol: material.market.quote(company.symbol).market_cap for company in (first, second)}
    if caps[first.symbol] == caps[second.symbol]:
        raise LookupError("neither is larger")
    return Case(
        words={"first": first.symbol, "second": second.symbol},
        form=TICKER_ONLY,
        turns=((read_quote(first.symbol), read_quote(second.symbol)),),
        conclude=conclude,
        known=max(caps, key=lambda symbol: caps[symbol]),
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
            return text_of(value)
        return number_of(value, unit="$" if key == "price" else "%")

    return Case(
        words={"place": str(place + 1), "what": what},
        form=form,
        turns=((call(_MOVERS[kind], limit=place + 1),),),
        conclude=conclude,
        known=getattr(quote, attribute),
    )


def _biography(material: Material) -> Case:
    company = material.pick(material.companies)

    def conclude(results: Results) -> Conclusion:
        ceo = results[1]["ceo"]
        pages = [page for page in results[2]["results"] if page["title"].startswith(ceo)]
        year = found(r"\(born (\d{4})\)", " ".join(page["content"] for page in pages))
        return text_of(year)

    return Case(
        words={"name": company.name},
        form="Answer with the year only.",
        turns=(
            (search(company.name),),
            (of_company("fmp_get_company_profile", company.name),),
            (PlanStep("tavily_search", lambda r: {"query": f"{r[1]['ceo']} biography born"}),),
        ),
        conclude=conclude,
    )


SEARCHES: dict[str, Draft] = {
    "profile_by_name": _profile,
    "figure_by_name": _figure,
    "income_figure": _statement,
    "larger_market_cap": _larger,
    "gainer_at_place": lambda material: _mover(material, "gainers"),
    "loser_at_place": lambda material: _mover(material, "losers"),
    "ceo_birth_year": _biography,
}
