"""Families of one call: a figure or a fact of one company, whose ticker or name is given."""

from collections.abc import Mapping
from typing import Any

from turnwise.tasks.proof.answers import NUMBER, found, looked_up, plain
from turnwise.tasks.proof.case import Case, Conclusion, call
from turnwise.types import Answer, Difficulty
from turnwise.worlds.market.families.facts import BarFacts, CompanyFacts, QuoteFacts
from turnwise.worlds.market.families.kit import Family, Material

FIGURES = {
    "latest price": ("price", "price", "$"),
    "day high": ("dayHigh", "day_high", "$"),
    "day low": ("dayLow", "day_low", "$"),
    "volume": ("volume", "volume", "shares"),
    "market cap": ("marketCap", "market_cap", "$"),
}
"""Wording in a question → the key in FMP's quote, the attribute of `QuoteFacts`, the unit."""

PRICES = ("latest price", "day high", "day low")
"""The figures in dollars and cents, which tasks also post, store or subtract from each other."""


def figure_of(quote: Mapping[str, Any], what: str) -> Conclusion:
    """Return a figure of a quote as the answer."""
    key, _, unit = FIGURES[what]
    value = quote[key]
    return Conclusion(
        looked_up(value, decimals=2 if isinstance(value, float) else 0, unit=unit), plain(value)
    )


def known_figure(quote: QuoteFacts, what: str) -> float:
    value: float = getattr(quote, FIGURES[what][1])
    return value


def _quote(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(FIGURES))
    return Case(
        words={"symbol": company.symbol, "what": what},
        form=NUMBER,
        turns=((call("fmp_get_quote", symbol=company.symbol),),),
        conclude=lambda results: figure_of(results[0], what),
        known=known_figure(material.market.quote(company.symbol), what),
    )


QUOTE_FIGURE = Family(
    name="quote_figure",
    difficulty=Difficulty.EASY,
    servers=("fmp",),
    required_tools=("fmp_get_quote",),
    phrasings=(
        "Look up the FMP quote of {symbol}. What is its {what}?",
        "According to FMP's quote, what is the {what} of {symbol}?",
        "I need the {what} of {symbol} from its FMP quote.",
        "Get {symbol}'s quote from FMP and tell me the {what}.",
        "Please fetch the quote for {symbol} on FMP and report the {what}.",
        "{symbol}: which {what} does the FMP quote show?",
    ),
    draft=_quote,
)

BAR_KEYS = {"close": "c", "open": "o", "high": "h", "low": "l", "volume": "v"}
"""Wording in a question → the key in Polygon's bar."""


def _previous_bar(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(list(BAR_KEYS))
    bar: BarFacts = material.market.daily_bars(company.symbol)[-2]

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


PREVIOUS_BAR = Family(
    name="previous_bar",
    difficulty=Difficulty.EASY,
    servers=("polygon",),
    required_tools=("polygon_get_previous_close",),
    phrasings=(
        "Ask Polygon for the previous close of {symbol}: what was that session's {what}?",
        "What was the {what} of {symbol} in the bar that Polygon's previous-close lookup gives?",
        "Take {symbol}'s previous session from Polygon's previous-close tool and give me the {what}.",
        "From Polygon's previous-close bar of {symbol}, I want the {what}.",
        "Using Polygon's previous-close tool, find the {what} of {symbol}.",
        "Which {what} does Polygon report as part of the previous close of {symbol}?",
    ),
    draft=_previous_bar,
)


def _change(material: Material) -> Case:
    company = material.pick(material.companies)

    def conclude(results: Any) -> Conclusion:
        value = results[0]["changePercentage"]
        return Conclusion(looked_up(value, unit="%"), plain(value))

    return Case(
        words={"symbol": company.symbol},
        form="Answer with the percentage only, with its sign if negative.",
        turns=((call("fmp_get_change_percent", symbol=company.symbol),),),
        conclude=conclude,
        known=material.market.quote(company.symbol).change_percent,
    )


CHANGE_PERCENT = Family(
    name="change_percent",
    difficulty=Difficulty.EASY,
    servers=("fmp",),
    required_tools=("fmp_get_change_percent",),
    phrasings=(
        "Use FMP's change-percent tool: by how many per cent did {symbol} move in the last session?",
        "What does FMP's change-percent lookup say for {symbol}?",
        "Check the percentage change of {symbol} with the change-percent tool of FMP.",
        "Run FMP's change percent for {symbol} and tell me the result.",
        "With the FMP change-percent tool, find how {symbol} moved in the last session.",
        "{symbol} moved by which percentage, going by FMP's change-percent tool?",
    ),
    draft=_change,
)

PROFILE_FACTS = {
    "CEO": ("ceo", "ceo", "Answer with the name only."),
    "sector": ("sector", "sector", "Answer with the sector only, as FMP writes it."),
    "industry": ("industry", "industry", "Answer with the industry only, as FMP writes it."),
    "country": ("country", "country", "Answer with the country only."),
}
"""Wording in a question → the key in FMP's profile, the attribute of `CompanyFacts`, how to answer."""


def fact_of(profile: Mapping[str, Any], what: str) -> Conclusion:
    """Return a fact of a profile as the answer."""
    value = profile[PROFILE_FACTS[what][0]]
    return Conclusion(Answer(value), value)


def known_fact(company: CompanyFacts, what: str) -> str:
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


PROFILE_FACT = Family(
    name="profile_fact",
    difficulty=Difficulty.EASY,
    servers=("fmp",),
    required_tools=("fmp_get_company_profile",),
    phrasings=(
        "What is the {what} of the company with ticker {symbol}, according to its FMP profile?",
        "Open the FMP company profile of {symbol} and tell me the {what}.",
        "From FMP's profile of {symbol}: {what}?",
        "I am looking for the {what} in the FMP profile of {symbol}.",
        "Please read the company profile of {symbol} on FMP and name the {what}.",
        "Which {what} does the FMP profile give for {symbol}?",
    ),
    draft=_profile,
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
        return Conclusion(Answer(value), value)

    return Case(
        words={"question": asked},
        form=form,
        turns=((call("tavily_qna_search", query=asked),),),
        conclude=conclude,
        known=str(getattr(company, attribute)),
    )


WEB_ANSWER = Family(
    name="web_answer",
    difficulty=Difficulty.EASY,
    servers=("tavily",),
    required_tools=("tavily_qna_search",),
    phrasings=(
        "Use Tavily's question answering to find out: {question}",
        "Ask the Tavily QnA search: {question}",
        "{question} Let Tavily's QnA search answer it.",
        "I would like Tavily's direct answer (QnA) to this: {question}",
        "Find the answer with a Tavily QnA search. {question}",
        "{question} Look it up on the web with Tavily's QnA tool.",
    ),
    draft=_web,
)


def _sentiment(material: Material) -> Case:
    company = material.pick(material.companies)

    def conclude(results: Any) -> Conclusion:
        value = results[0][0]["sentiment"]
        return Conclusion(Answer(value), value)

    return Case(
        words={"symbol": company.symbol},
        form="Answer with positive, negative or neutral only.",
        turns=((call("polygon_get_news", ticker=company.symbol, limit=1),),),
        conclude=conclude,
    )


NEWS_SENTIMENT = Family(
    name="news_sentiment",
    difficulty=Difficulty.EASY,
    servers=("polygon",),
    required_tools=("polygon_get_news",),
    phrasings=(
        "What is the sentiment of the newest Polygon news article about {symbol}?",
        "Get the latest news on {symbol} from Polygon. Which sentiment does the newest article have?",
        "Check Polygon's news for {symbol}: what sentiment is the most recent article tagged with?",
        "Look at the most recent {symbol} article in Polygon's news and report its sentiment.",
        "Polygon tags news with a sentiment. Which one has the newest article on {symbol}?",
        "How is the latest {symbol} story in Polygon's news rated?",
    ),
    draft=_sentiment,
)

LOOKUPS = (QUOTE_FIGURE, PREVIOUS_BAR, CHANGE_PERCENT, PROFILE_FACT, WEB_ANSWER, NEWS_SENTIMENT)
