"""Both backends of a tool answer with the same keys in the same order, so that a policy can move between."""

import asyncio
from typing import Any

import pytest

from tests.servers.live import test_fmp as fmp
from tests.servers.live import test_polygon as polygon
from tests.servers.live import test_slack as slack
from tests.servers.live import test_tavily as tavily
from tests.servers.live.play import environ
from tests.servers.provider import Answer, LoopbackProvider
from turnwise.servers.contract import WRITES, contract
from turnwise.servers.services import Backend, open_service

BAR = polygon.bar(polygon.milliseconds(2024, 1, 2))
NEWS = {
    "title": "t",
    "published_utc": "2024-06-24T18:33:53Z",
    "publisher": {"name": "p"},
    "tickers": ["AAPL"],
    "description": "d",
    "article_url": "https://x.example",
    "insights": [{"ticker": "AAPL", "sentiment": "positive"}],
}
TEXTS = {"type": "message", "user": "U1", "text": "hello", "ts": "1512085950.0002"}
STATUS = {
    "market": "open",
    "serverTime": "2020-11-10T17:37:37-05:00",
    "exchanges": {"nasdaq": "open", "nyse": "open", "otc": "open"},
    "earlyHours": False,
    "afterHours": False,
}
SCRIPT: dict[str, Answer] = {
    "quote": Answer([fmp.QUOTE]),
    "ratios-ttm": Answer([{"priceToEarningsRatioTTM": 36.4}]),
    "profile": Answer([fmp.PROFILE]),
    "income-statement": Answer([fmp.statement("2024-09-28", "2024")]),
    "biggest-gainers": Answer([fmp.mover("AAA", 1.0)]),
    "biggest-losers": Answer([fmp.mover("AAA", -1.0)]),
    "search-symbol": Answer([fmp.listing("AAPL", "Apple Inc.")]),
    "search-name": Answer([]),
    "news/stock-latest": Answer([fmp.article("one")]),
    polygon.DAILY: Answer(polygon.aggs(BAR)),
    "v2/aggs/ticker/AAPL/prev": Answer(polygon.aggs(BAR)),
    "v2/reference/news": Answer({"status": "OK", "results": [NEWS]}),
    "v3/reference/tickers/AAPL": Answer(polygon.DETAILS),
    "v1/marketstatus/now": Answer(STATUS),
    "search": Answer(tavily.FOUND),
    "conversations.list": slack.page(slack.channel("C012AB3CD", "general")),
    "conversations.history": Answer({"ok": True, "messages": [TEXTS]}),
    "chat.postMessage": Answer(slack.POSTED),
}
TOOLS = [
    (server, tool["name"], tool["inputSchema"]["required"])
    for server, spec in contract()["servers"].items()
    if spec["key"]
    for tool in spec["tools"]
]


def shape(value: Any) -> Any:
    """Keys in order, lists by their first item, values by JSON type (a number is a number)."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [shape(value[0])]
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


async def answer(server: str, tool: str, backend: Backend, variables: dict[str, str], words: Any) -> Any:
    may_write = backend is Backend.LIVE and tool in WRITES
    async with open_service(server, backend, variables, may_write=may_write) as service:
        handler = next(one_tool.handler for one_tool in service.tools if one_tool.name == tool)
        return await handler(words, "episode-1")


def embedded_facts() -> tuple[str, str]:
    """A symbol of the embedded world and a day it traded."""
    found = asyncio.run(answer("fmp", "fmp_get_market_gainers", Backend.EMBEDDED, {}, {}))
    symbol = str(found[0]["symbol"])
    close = answer("polygon", "polygon_get_previous_close", Backend.EMBEDDED, {}, {"ticker": symbol})
    return symbol, str(asyncio.run(close)["date"])


@pytest.mark.parametrize(("server", "tool", "required"), TOOLS)
def test_live_answers_have_the_embedded_shape(
    provider: LoopbackProvider, server: str, tool: str, required: list[str]
) -> None:
    for path, scripted in SCRIPT.items():
        provider.play(path, scripted)
    symbol, day = embedded_facts()
    live = {"symbol": "AAPL", "ticker": "AAPL", "start_date": "2024-01-02", "end_date": "2024-01-03"}
    made = {"symbol": symbol, "ticker": symbol, "start_date": day, "end_date": day}
    both = {"query": "aapl" if server == "fmp" else "market", "channel": "general", "message": "hello"}
    both["channel_id"] = "general"
    if tool == "fmp_search_ticker":
        made["query"] = symbol
    expected = asyncio.run(
        answer(server, tool, Backend.EMBEDDED, {}, {key: (both | made)[key] for key in required})
    )
    given = {key: (both | live)[key] for key in required}
    got = asyncio.run(answer(server, tool, Backend.LIVE, environ(server, provider.url), given))
    assert shape(got) == shape(expected)
