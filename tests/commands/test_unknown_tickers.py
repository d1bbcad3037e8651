"""Tickers that the embedded world lacks are named; those it has, and plain capitals, are not."""

import asyncio
from typing import Any

from tests import warm
from turnwise.commands.unknown_tickers import unknown_tickers
from turnwise.mcp.pool import Pool
from turnwise.servers.backends import load_servers
from turnwise.servers.embedded.world import open_world
from turnwise.servers.services import DEFAULT_FILE
from turnwise.tasks.load import PlacedTask
from turnwise.types import DemoTurn, Message, Task, ToolCall, Truth

KNOWN = open_world(0).market.companies()[0].symbol


def warnings_of(text: str, *, live: tuple[str, ...] = (), **changes: Any) -> list[str]:
    task = Task("t1", (Message("user", text),), (), Truth(min_tool_calls=1), **changes)

    async def find() -> list[str]:
        async with Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool:
            await pool.connect(["fmp"])
            servers = load_servers(DEFAULT_FILE, live=live, variables={"FMP_API_KEY": "k"})
            found = await unknown_tickers([PlacedTask("f", 1, task)], servers, pool)
            return [str(problem) for problem in found]

    return asyncio.run(find())


def test_a_ticker_that_no_server_knows_is_named_with_its_task() -> None:
    assert warnings_of(f"Compare ZZXQ with $QQZX and {KNOWN}: ZZXQ first.") == [
        "f: row 1: prompt.0: task 't1': ZZXQ: no such ticker in the embedded world",
        "f: row 1: prompt.0: task 't1': QQZX: no such ticker in the embedded world",
    ]


def test_words_in_capitals_are_no_tickers() -> None:
    assert warnings_of(f"Give the CEO of {KNOWN} and its P/E, EPS and S&P 500 weight as JSON, in USD.") == []


def test_arguments_of_a_demonstration_are_looked_at() -> None:
    calls = (ToolCall("1", "fmp_get_quote", {"symbol": "ZZXQ"}), ToolCall("2", "x", {"tickers": "QQZX"}))
    found = warnings_of("How much?", demonstration=(DemoTurn("", calls), DemoTurn("1")))
    assert [text.split(": ")[2] for text in found] == ["demonstration.0", "demonstration.0"]


def test_live_servers_are_not_asked() -> None:
    assert warnings_of("What is ZZXQ worth?", live=("fmp",)) == []
