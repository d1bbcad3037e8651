"""Find tickers in tasks that the embedded world does not know, by asking its servers."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from turnwise.mcp.pool import Pool
from turnwise.tasks.load import PlacedTask, Problem
from turnwise.types import Fault, ScriptedUser, Task, ToolCall

QUOTE_TOOL = "fmp_get_quote"
"""The tool that knows every ticker of its server."""

_UNKNOWN = "no such ticker in the embedded world"
_TICKER = re.compile(r"(?<![\w&/.-])\$?([A-Z]{2,5}(?:[.-][A-Z]{1,2})?)(?![\w&/-])")
_ARGUMENTS = ("symbol", "ticker", "tickers")
_ACRONYMS = frozenset(
    (  # noqa: SIM905  # a hundred quoted words would be harder to read
        "AI AM API APR AUM BUY CAGR CEO CFO COO CPI CRM CSV CTO DCF DM EBIT EM EMA EPS ESG EST ET ETF ETFS "
        "EU EUR EV FAANG FCF FDA FED FMP FOMC FX GAAP GARCH GBP GDP HOLD HTML ID IPO IPOS IR IT JPY JSON KPI "
        "LLC LLM MACD MCP ML NASDAQ NLP NOT NYSE OHLC OHLCV OK ONLY OR OTC PDF PE PM PNL PR QA QOQ REIT "
        "REITS ROA ROE ROI RSI SEC SELL SMA SQL TIPS TTM TV UI UK URL US USA USD UTC VAR VC VWAP XLSX YOY "
        "YTD"
    ).split()
)
"""Acronyms that are not tickers; a missing one causes a false warning."""


async def unknown_tickers(
    placed: Sequence[PlacedTask], embedded: Collection[str], pool: Pool
) -> list[Problem]:
    """Return a warning for each ticker in a task that the world of these embedded servers lacks."""
    tool = next((tool for tool in pool.tools if tool.server_tool == QUOTE_TOOL), None)
    if tool is None or tool.server not in embedded:
        return []
    named = [(item, field, ticker) for item in placed for field, ticker in _tickers(item.task)]
    tickers = sorted({ticker for *_, ticker in named})
    calls = [ToolCall(ticker, tool.name, {"symbol": ticker}) for ticker in tickers]
    async with pool.lease([tool.server], "tickers") as toolbox:
        results = await toolbox.call(calls)
    unknown = {result.call_id for result in results if result.fault is Fault.MODEL}
    return [
        Problem(item.file, item.row, field, f"task {item.task.id!r}: {ticker}: {_UNKNOWN}")
        for item, field, ticker in named
        if ticker in unknown
    ]


def _tickers(task: Task) -> Iterator[tuple[str, str]]:
    """Yield every ticker that a task names, once, with the first field that names it."""
    fields: dict[str, str] = {}
    for field, text in _said_by_user(task):
        for ticker in _TICKER.findall(text):
            if ticker not in _ACRONYMS:
                fields.setdefault(ticker, field)
    for number, turn in enumerate(task.demonstration):
        for call in turn.calls:
            for ticker in _given(call.arguments):
                fields.setdefault(ticker, f"demonstration.{number}")
    yield from ((field, ticker) for ticker, field in fields.items())


def _said_by_user(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the user's words, with the fields that hold them: the prompt, the follow-ups, the replies."""
    for index, message in enumerate(task.prompt):
        if message.role == "user":
            yield f"prompt.{index}", message.content
    for index, follow_up in enumerate(task.conversation):
        yield f"conversation.{index}.message", follow_up.message
    for index, rule in enumerate(task.user.rules if isinstance(task.user, ScriptedUser) else ()):
        yield f"user.rules.{index}.say", rule.say


def _given(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in _ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str):
            yield from (part.strip() for part in value.split(",") if part.strip())
