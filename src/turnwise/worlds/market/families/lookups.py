"""Families of one call: a figure or a fact of one company, whose ticker or name is given."""

from collections.abc import Mapping
from typing import Any

from turnwise.tasks.proof.answers import NUMBER, found, looked_up, plain
from turnwise.tasks.proof.case import Case, Conclusion, call
from turnwise.worlds.market.data.bars import Bar
from turnwise.worlds.market.data.companies import Company
from turnwise.worlds.market.data.market import Quote
from turnwise.worlds.market.families.kit import Draft, Material
from turnwise.worlds.market.families.steps import number_of, read_quote, text_of

FIGURES = {
    "latest price": ("price", "price", "$"),
    "day high": ("dayHigh", "day_high", "$"),
    "day low": ("dayLow", "day_low", "$"),
    "volume": ("volume", "volume", "shares"),
    "market cap": ("marketCap", "market_cap", "$"),
}
"""Wording in a question → the key in FMP's quote, the attribute of `Quote`, the unit."""

PRICES = ("latest price", "day high", "day low")
"""The figures in dollars and cents, which tasks also post, store or subtract from each other."""


def figure_of(quote: Mapping[str, Any], what: str) -> Conclusion:
    """Return a figure of a quote as the answer."""
    key, _, unit = FIGURES[what]
    value = quote[key]
    return Conclusion(
        looked_up(value, decimals=2 if isinstance(value, float) else 0, unit=unit), plain(value)
    )


def known_figure(quote: Quote, what: str) -> float:
    value: float = getattr(quote, FIGURES[what][1])
    return value


def _quote(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(FIGURES))
    return Case(
        words={"symbol": company.symbol, "what": what},
        form=NUMBER,
        turns=((read_quote(company.symbol),),),
        conclude=lambda results: figure_of(results[0], what),
        known=known_figure(material.market.quote(company.symbol), what),
    )


BAR_KEYS = {"close": "c", "open": "o", "high": "h", "low": "l", "volume": "v"}
"""Wording in a question → the key in Polygon's bar."""


def _previous_bar(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(BAR_KEYS))
    bar: Bar = material.market.daily_bars(company.symbol)[-2]

    def conclude(results: Any) -> Conclusion:
        value = results[0][BAR_KEYS[what]]
        is_count = what == "volume"
        answer = looked_up(value, decimals=0 if is_count else 2, unit="shares" if is_count else "$")
        return Conclusion(answer, plain(value))

    return Case(
        words={"symbol": company.symbol, "what": what},
        form=NUMBER,
        turns=((call("polygon_get_previous_close", ticker=company.symbol),),),
        conclude=conclude,
        known=getattr(bar, what),
    )


def _change(material: Material) -> Case:
    company = material.pick(material.companies)

    def conclude(results: Any) -> Conclusion:
        value = results[0]["changePercentage"]
        return number_of(value, unit="%")

    return Case(
        words={"symbol": company.symbol},
        form="Answer with the percentage only, with its sign if negative.",
        turns=((call("fmp_get_change_percent", symbol=company.symbol),),),
        conclude=conclude,
        known=material.market.quote(company.symbol).change_percent,
    )


PROFILE_FACTS = {
    "CEO": ("ceo", "ceo", "Answer with the name only."),
    "sector": ("sector", "sector", "Answer with the sector only, as FMP writes it."),
    "industry": ("industry", "industry", "Answer with the industry only, as FMP writes it."),
    "country": ("country", "country", "Answer with the country only."),
}
"""Wording in a question → the key in FMP's profile, the attribute of `Company`, how to answer."""


def fact_of(profile: Mapping[str, Any], what: str) -> Conclusion:
    """Return a fact of a profile as the answer."""
    value = profile[PROFILE_FACTS[what][0]]
    return text_of(value)


def known_fact(company: Company, what: str) -> str:
    value: str = getattr(company, PROFILE_FACTS[what][1])
    return value


def _profile(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(PROFILE_FACTS))
    return Case(
        words={"symbol": company.symbol, "what": what},
        form=PROFILE_FACTS[what][2],
        turns=((call("fmp_get_company_profile", symbol=company.symbol),),),
        conclude=lambda results: fact_of(results[0], what),
        known=known_fact(company, what),
    )


_WEB_FACTS = {
    "In which city is {name} based?": (r"is based in ([^,]+),", "city", "Answer with the city only."),
    "In which year was {name} founded?": (r"founded in (\d{4})", "founded", "Answer with the year only."),
}


def _web(material: Material) -> Case:
    company, question = material.pick(material.companies), material.pick(list(_WEB_FACTS))
    pattern, attribute, form = _WEB_FACTS[question]
    asked = question.format(name=company.name)

    def conclude(results: Any) -> Conclusion:
        value = found(pattern, results[0]["answer"])
        return text_of(value)

    return Case(
        words={"question": asked},
        form=form,
        turns=((call("tavily_qna_search", query=asked),),),
        conclude=conclude,
        known=str(getattr(company, attribute)),
    )


def _sentiment(material: Material) -> Case:
    company = material.pick(material.companies)

    def conclude(results: Any) -> Conclusion:
        value = results[0][0]["sentiment"]
        return text_of(value)

    return Case(
        words={"symbol": company.symbol},
        form="Answer with positive, negative or neutral only.",
        turns=((call("polygon_get_news", ticker=company.symbol, limit=1),),),
        conclude=conclude,
    )


LOOKUPS: dict[str, Draft] = {
    "quote_figure": _quote,
    "previous_bar": _previous_bar,
    "change_percent": _change,
    "profile_fact": _profile,
    "web_answer": _web,
    "news_sentiment": _sentiment,
}
