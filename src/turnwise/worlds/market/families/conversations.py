"""Families of several messages: references back, corrections, missing facts, later tools, undoing."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

from turnwise.tasks.proof.answers import NUMBER
from turnwise.tasks.proof.case import Case, Conclusion, Exchange, Question
from turnwise.types import UserRule
from turnwise.worlds.market.data.bars import Bar
from turnwise.worlds.market.families.kit import Draft, Material
from turnwise.worlds.market.families.lookups import BAR_KEYS, FIGURES, figure_of, known_figure
from turnwise.worlds.market.families.steps import number_of, read_bars, read_quote, text_of

_BAR_FIGURES = ("close", "open", "high", "low")
_NUM_SESSIONS = 250
"""Questions about a day are about the last sessions."""


def _price_of(bar: Mapping[str, Any], what: str) -> Conclusion:
    """Return a price of one of Polygon's bars as the answer."""
    value = bar[BAR_KEYS[what]]
    return number_of(value, unit="$")


def _same_figure(material: Material) -> Case:
    first, second = material.pick_two(material.companies)
    what = material.pick(list(FIGURES))
    return Case(
        words={"symbol": first.symbol, "other": second.symbol, "what": what},
        form=NUMBER,
        turns=((read_quote(first.symbol),),),
        conclude=lambda results: figure_of(results[0], what),
        known=known_figure(material.market.quote(first.symbol), what),
        later=(
            Exchange(
                form=NUMBER,
                turns=((read_quote(second.symbol),),),
                conclude=lambda results: figure_of(results[1], what),
                known=known_figure(material.market.quote(second.symbol), what),
                required_tools=("fmp_get_quote",),
            ),
        ),
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
        turns=((read_bars(company.symbol, day, day),),),
        conclude=lambda results: _price_of(results[0]["results"][0], what),
        known=getattr(asked, what),
        later=(
            Exchange(
                form=NUMBER,
                turns=((read_bars(company.symbol, week_before, day),),),
                conclude=lambda results: _price_of(results[1]["results"][-2], what),
                known=getattr(before, what),
                required_tools=("polygon_get_aggs",),
            ),
        ),
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

    def about(bar: Bar, question: Question | None, guesses: Sequence[Case] = ()) -> Case:
        day = bar.day.isoformat()
        return Case(
            words=words,
            form=f"Ask me if you need to know more. {NUMBER}",
            turns=((read_bars(company.symbol, day, day),),),
            conclude=lambda results: _price_of(results[0]["results"][0], what),
            known=getattr(bar, what),
            question=question,
            guesses=tuple(guesses),
        )

    question = Question("Which date was that?", UserRule(_ASKS_FOR_A_DAY, reply))
    return about(meant, question, [about(guessed, None)])


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
        conclude=lambda _: text_of(UNAVAILABLE),
        tools=_WITHOUT_QUOTES,
        later=(
            Exchange(
                form=NUMBER,
                turns=((read_quote(company.symbol),),),
                conclude=lambda results: figure_of(results[0], what),
                known=known_figure(material.market.quote(company.symbol), what),
                required_tools=("fmp_get_quote",),
                tools=(*_WITHOUT_QUOTES, "fmp_get_quote"),
            ),
        ),
    )


CONVERSATIONS: dict[str, Draft] = {
    "same_figure": _same_figure,
    "corrected_day": _corrected_day,
    "missing_day": _missing_day,
    "later_tool": _later_tool,
}
