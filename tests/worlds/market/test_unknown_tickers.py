"""Tickers that the embedded world lacks are named; those it has, and other words in capitals, are not."""

from typing import Any

from tests import warm
from turnwise.mcp.pool import Pool
from turnwise.setup.servers import load_servers
from turnwise.tasks.load import PlacedTask
from turnwise.types import DemoTurn, FollowUp, Message, ScriptedUser, Task, ToolCall, Truth, UserRule
from turnwise.worlds.market.services import DEFAULT_FILE
from turnwise.worlds.market.unknown_tickers import unknown_tickers
from turnwise.worlds.market.world import open_world

KNOWN = open_world(0).market.companies()[0].symbol
TEXTS = (
    f"Compare ZZXQ with $QQZX and {KNOWN}: ZZXQ first.",
    f"Give the CEO of {KNOWN} and its P/E, EPS and S&P 500 weight as JSON, in USD, from FMP.",
    "How much?",
    f"What does {KNOWN} cost?",
)
CALLS = (ToolCall("1", "fmp_get_quote", {"symbol": "ZZXQ"}), ToolCall("2", "x", {"tickers": "QQZX"}))


async def test_unknown_tickers_of_messages_and_demonstrations_are_named_unless_the_server_is_live() -> None:
    parts: tuple[dict[str, Any], ...] = (
        {},
        {},
        {"demonstration": (DemoTurn("", CALLS), DemoTurn("1"))},
        {"conversation": (FollowUp(f"And {KNOWN}?", Truth()), FollowUp("And ZZXQ and QQZX?", Truth()))},
    )
    tasks = [
        PlacedTask("f", row, Task(f"t{row}", (Message("user", text),), (), Truth(), **more))
        for row, (text, more) in enumerate(zip(TEXTS, parts, strict=True), 1)
    ]
    found = {}
    async with Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool:
        await pool.connect(["fmp"])
        for live in ((), ("fmp",)):
            servers = load_servers(DEFAULT_FILE, live=live, variables={"FMP_API_KEY": "k"})
            found[live] = [str(problem) for problem in await unknown_tickers(tasks, servers.embedded, pool)]
    places = (
        "row 1: prompt.0: task 't1'",
        "row 3: demonstration.0: task 't3'",
        "row 4: conversation.1.message: task 't4'",
    )
    assert found[()] == [
        f"f: {place}: {ticker}: no such ticker in the embedded world"
        for place in places
        for ticker in ("ZZXQ", "QQZX")
    ]
    assert found["fmp",] == [], "live servers are not asked"


async def test_unknown_tickers_of_follow_ups_and_of_the_users_replies_are_named() -> None:
    talk = Task(
        "t",
        (Message("user", f"What does {KNOWN} cost?"),),
        (),
        Truth(),
        conversation=(FollowUp("And ZZXQ?", Truth()), FollowUp(f"And {KNOWN}, ZZXQ?", Truth())),
        user=ScriptedUser((UserRule("which", "The one of QQZX."),)),
    )
    async with Pool(warm.built_in({"TURNWISE_WORLD_SEED": "0"})) as pool:
        await pool.connect(["fmp"])
        found = await unknown_tickers([PlacedTask("f", 1, talk)], load_servers(DEFAULT_FILE).embedded, pool)
    assert [str(problem) for problem in found] == [
        f"f: row 1: {place}: task 't': {ticker}: no such ticker in the embedded world"
        for place, ticker in (("conversation.0.message", "ZZXQ"), ("user.rules.0.say", "QQZX"))
    ]
