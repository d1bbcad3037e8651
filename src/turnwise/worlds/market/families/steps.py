"""The steps and conclusions that the plans of several families share."""

from collections.abc import Callable
from typing import Any

from turnwise.tasks.proof.answers import looked_up, plain, row_where
from turnwise.tasks.proof.case import Conclusion, PlanStep, Results, call
from turnwise.types import Answer
from turnwise.worlds.market.families.kit import SlackChannel


def read_quote(symbol: str) -> PlanStep:
    return call("fmp_get_quote", symbol=symbol)


def read_bars(symbol: str, start: str, end: str) -> PlanStep:
    """Return the step that reads Polygon's daily bars from one day to another."""
    return call("polygon_get_aggs", ticker=symbol, start_date=start, end_date=end)


def search(name: str) -> PlanStep:
    """Return the step that searches for a company's ticker by its name."""
    return call("fmp_search_ticker", query=name)


def symbol_in(rows: Any, name: str) -> str:
    """Return the ticker of the search result with exactly this name."""
    symbol: str = row_where(rows, "name", name)["symbol"]
    return symbol


def of_company(tool: str, name: str, *, place: int = 0, key: str = "symbol", **others: Any) -> PlanStep:
    """Return the call of a tool for the ticker that the search at this place found."""
    return PlanStep(tool, lambda results: {key: symbol_in(results[place], name), **others})


def run_python(code: Callable[[Results], str]) -> PlanStep:
    return PlanStep("execute_python", lambda results: {"code": code(results)})


def send(channel: SlackChannel, message: Callable[[Results], str]) -> PlanStep:
    return PlanStep("send_slack_message", lambda r: {"channel": channel.name, "message": message(r)})


def text_of(text: str) -> Conclusion:
    """Return a text as the answer."""
    return Conclusion(Answer(text), text)


def number_of(value: float, *, decimals: int = 2, unit: str) -> Conclusion:
    """Return a number copied from a result as the answer."""
    return Conclusion(looked_up(value, decimals=decimals, unit=unit), plain(value))
