"""Families of several messages: references back, corrections, missing facts, later tools, undoing."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from turnwise.tasks.proof.answers import NUMBER, looked_up, plain
from turnwise.tasks.proof.case import Case, Conclusion, Exchange, PlanStep, Question, call
from turnwise.types import Answer, Difficulty, UserRule
from turnwise.worlds.market.families.facts import BarFacts
from turnwise.worlds.market.families.kit import Family, Material
from turnwise.worlds.market.families.lookups import BAR_KEYS, FIGURES, figure_of, known_figure

_BAR_FIGURES = ("close", "open", "high", "low")
_NUM_SESSIONS = 250
"""Questions about a day are about the last sessions."""


def _price_of(bar: Mapping[str, Any], what: str) -> Conclusion:
    """Return a price of one of Polygon's bars as the answer."""
    value = bar[BAR_KEYS[what]]
    return Conclusion(looked_up(value, unit="$"), plain(value))


def _bars(symbol: str, start: str, end: str) -> PlanStep:
    return call("polygon_get_aggs", ticker=symbol, start_date=start, end_date=end)


def _same_figure(material: Material) -> Case:
    first, second = material.pick_two(material.companies)
    what = material.pick(list(FIGURES))
    return Case(
        words={"symbol": first.symbol, "other": second.symbol, "what": what},
        form=NUMBER,
        turns=((call("fmp_get_quote", symbol=first.symbol),),),
        conclude=lambda results: figure_of(results[0], what),
        known=known_figure(material.market.quote(first.symbol), what),
        later=(
            Exchange(
                form=NUMBER,
                turns=((call("fmp_get_quote", symbol=second.symbol),),),
                conclude=lambda results: figure_of(results[1], what),
                known=known_figure(material.market.quote(second.symbol), what),
                required_tools=("fmp_get_quote",),
            ),
        ),
    )


SAME_FIGURE = Family(
    name="same_figure",
    difficulty=Difficulty.EASY,
    servers=("fmp",),
    required_tools=("fmp_get_quote",),
    phrasings=(
        "What is the {what} of {symbol}, by its FMP quote?",
        "I need to know the {what} of {symbol}. Please use the FMP quote.",
        "Can you get me the {what} that FMP quotes for {symbol}?",
        "Check FMP's quote of {symbol} for me: what is the {what}?",
        "Could you look at {symbol} on FMP? I want the {what} from its quote.",
        "For {symbol}, what {what} is in the quote that FMP has?",
    ),
    follow_ups=(
        (
            "And for {other}?",
            "Thanks. And {other}?",
            "Now the same for {other}, please.",
            "Great, how about {other}?",
            "What is it for {other}?",
            "OK. I would like that for {other} too.",
        ),
    ),
    draft=_same_figure,
)


def _corrected_day(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(_BAR_FIGURES)
    bars = material.market.daily_bars(company.symbol)[-_NUM_SESSIONS:]
    before, asked = material.pick(
        [(before, bar) for before, bar in pairwise(bars) if getattr(before, what) != getattr(bar, what)]
    )
    day, week_before = asked.day.isoformat(), (asked.day - timedelta(days=7)).isoformat()
    return Case(
        words={"symbol": company.symbol, "what": what, "day": day},
        form=NUMBER,
        turns=((_bars(company.symbol, day, day),),),
        conclude=lambda results: _price_of(results[0]["results"][0], what),
        known=getattr(asked, what),
        later=(
            Exchange(
                form=NUMBER,
                turns=((_bars(company.symbol, week_before, day),),),
                conclude=lambda results: _price_of(results[1]["results"][-2], what),
                known=getattr(before, what),
                required_tools=("polygon_get_aggs",),
            ),
        ),
    )


CORRECTED_DAY = Family(
    name="corrected_day",
    difficulty=Difficulty.MEDIUM,
    servers=("polygon",),
    required_tools=("polygon_get_aggs",),
    phrasings=(
        "What was the {what} of {symbol} on {day}? Use Polygon's daily bars.",
        "Look up {symbol} in Polygon's daily bars: what was the {what} on {day}?",
        "I need {symbol}'s {what} for {day} from the daily bars on Polygon.",
        "On {day}, what was the {what} of {symbol}, by Polygon's bars?",
        "Please get the daily bar of {symbol} for {day} from Polygon and tell me the {what}.",
        "Which {what} do Polygon's daily bars give for {symbol} on {day}?",
    ),
    follow_ups=(
        (
            "Sorry, I meant the session before. Please look that one up.",
            "Wrong day, sorry: I need the trading day before it. Can you look again?",
            "My mistake, I was one session too late. Look up the one before, please.",
            "Oh, that is not the day I meant. Please check the session just before it.",
            "Sorry, please look up the last session before that day. I mixed up the dates.",
            "I got the date wrong: it should have been the previous trading day. Please look it up.",
        ),
    ),
    draft=_corrected_day,
)

_OCCASIONS = (
    *("our last board meeting", "the office move", "the client visit", "the budget review"),
    *("our first trade", "the strategy call", "the audit", "the team offsite"),
)
_REPLIES = ("It was {day}.", "That was on {day}.", "{day}.", "On {day}, I think. Yes, {day}.")
_ASKS_FOR_A_DAY = r"(?i)\b(when|date|day|session)\b[^?]*\?"


def _missing_day(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(_BAR_FIGURES)
    bars = material.market.daily_bars(company.symbol)[-_NUM_SESSIONS:]
    meant = material.pick(bars)
    guessed = material.pick([bar for bar in bars if getattr(bar, what) != getattr(meant, what)])
    reply = material.pick(_REPLIES).format(day=meant.day.isoformat())
    words = {"symbol": company.symbol, "what": what, "occasion": material.pick(_OCCASIONS)}

    def about(bar: BarFacts, question: Question | None, guesses: Sequence[Case] = ()) -> Case:
        day = bar.day.isoformat()
        return Case(
            words=words,
            form=f"Ask me if you need to know more. {NUMBER}",
            turns=((_bars(company.symbol, day, day),),),
            conclude=lambda results: _price_of(results[0]["results"][0], what),
            known=getattr(bar, what),
            question=question,
            guesses=tuple(guesses),
        )

    question = Question("Which date was that?", UserRule(_ASKS_FOR_A_DAY, reply))
    return about(meant, question, [about(guessed, None)])


MISSING_DAY = Family(
    name="missing_day",
    difficulty=Difficulty.MEDIUM,
    servers=("polygon",),
    required_tools=("polygon_get_aggs",),
    phrasings=(
        "What was the {what} of {symbol} on the day of {occasion}? Use Polygon's daily bars.",
        "I need {symbol}'s {what} from Polygon's daily bars for the day of {occasion}.",
        "Please look up {symbol} on Polygon: which {what} did it have on the day of {occasion}?",
        "For a report, I want the {what} of {symbol} on the date of {occasion}, by Polygon's daily bars.",
        "On the day of {occasion}, what was {symbol}'s {what}? Polygon's daily bars have it.",
        "Can you find the {what} of {symbol} for the date of {occasion} in the daily bars on Polygon?",
    ),
    draft=_missing_day,
)

_WITHOUT_QUOTES = ("fmp_search_ticker", "fmp_get_company_profile")
_QUOTE_ONLY = ("day high", "day low", "volume")
"""Figures that a quote shows and neither a search nor a profile does."""
UNAVAILABLE = "unavailable"


def _later_tool(material: Material) -> Case:
    company, what = material.pick(material.companies), material.pick(_QUOTE_ONLY)
    return Case(
        words={"symbol": company.symbol, "what": what},
        form=f'Answer with the number only, or with the word "{UNAVAILABLE}" if no tool of yours shows it.',
        turns=(),
        conclude=lambda _: Conclusion(Answer(UNAVAILABLE), UNAVAILABLE),
        tools=_WITHOUT_QUOTES,
        later=(
            Exchange(
                form=NUMBER,
                turns=((call("fmp_get_quote", symbol=company.symbol),),),
                conclude=lambda results: figure_of(results[0], what),
                known=known_figure(material.market.quote(company.symbol), what),
                required_tools=("fmp_get_quote",),
                tools=(*_WITHOUT_QUOTES, "fmp_get_quote"),
            ),
        ),
    )


LATER_TOOL = Family(
    name="later_tool",
    difficulty=Difficulty.EASY,
    servers=("fmp",),
    required_tools=(),
    phrasings=(
        "What is today's {what} of {symbol} on FMP?",
        "Please find out the {what} of {symbol} for today, with FMP's tools.",
        "I need {symbol}'s {what} of today. Can you get it from FMP?",
        "Look up today's {what} for {symbol} on FMP, please.",
        "Which {what} did {symbol} have today, by FMP?",
        "Could you tell me {symbol}'s {what} today? FMP should have it.",
    ),
    follow_ups=(
        (
            "You have FMP's quote tool now. Please try again.",
            "I have added the quote tool. What is it?",
            "Quotes are available from now on, so please look it up.",
            "OK, I turned the FMP quotes on. Try once more.",
            "The quote tool is there now. Can you do it with that?",
            "I just gave you access to FMP's quotes. Please answer my question now.",
        ),
    ),
    draft=_later_tool,
)

CONVERSATIONS = (SAME_FIGURE, CORRECTED_DAY, MISSING_DAY, LATER_TOOL)
