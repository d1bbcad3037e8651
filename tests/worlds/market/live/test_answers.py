"""The cases of `data/*.json`: what the tools make of the replies that the four providers document.

A case has `calls`, `replies` and `status` codes by path where they differ from those of the file, and what
every call must result in: an `answer` (or what it `includes`), a `mistake` of the model or a `fault` of the
provider, both patterns. `requests` are all that were sent: a path and its query or body.
"""

from typing import Any

import pytest

from tests.worlds.market.live.calls import DATA, ask, open_tools, play_replies
from tests.worlds.market.provider import Answer, LoopbackProvider
from turnwise.mcp.serve import ToolError, Unavailable
from turnwise.worlds.market.live.polygon import MAX_BARS

CASES = [
    pytest.param(server, case, id=f"{server}: {title}")
    for server, data in DATA.items()
    for title, case in data["cases"].items()
]


@pytest.mark.parametrize(("server", "case"), CASES)
async def test_a_reply_becomes_the_right_answer_or_error(
    provider: LoopbackProvider, server: str, case: dict[str, Any]
) -> None:
    play_replies(provider, server, case)
    async with open_tools(provider.url, server) as call:
        for tool, arguments in case["calls"]:
            if "mistake" in case or "fault" in case:
                error = ToolError if "mistake" in case else Unavailable
                with pytest.raises(error, match=case.get("mistake") or case["fault"]):
                    await call(tool, arguments)
            else:
                answer = await call(tool, arguments)
                assert answer == case.get("answer", answer)
                if "includes" in case:
                    assert answer == answer | case["includes"]
    sent = [[seen.path.removeprefix("/api/"), seen.body or seen.query] for seen in provider.requests]
    assert sent == case.get("requests", sent)


async def test_too_many_bars_are_cut_and_marked(provider: LoopbackProvider) -> None:
    bar = {"v": 1.0, "o": 1, "c": 1, "h": 1, "l": 1, "t": 1704171600000}
    days = {"start_date": "2024-01-02", "end_date": "2024-01-03"}
    path = "v2/aggs/ticker/AAPL/range/1/day/2024-01-02/2024-01-03"
    provider.play(path, Answer({"status": "OK", "results": [bar] * (MAX_BARS + 1)}))
    answer = await ask(provider.url, "polygon", "polygon_get_aggs", {"ticker": "AAPL", **days})
    assert (len(answer["results"]), answer["resultsCount"], answer["truncated"]) == (MAX_BARS, MAX_BARS, True)


@pytest.mark.parametrize(
    ("server", "tool", "arguments", "name"),
    [
        ("slack", "send_slack_message", {"channel": "C012AB3CD", "message": "x" * 40_001}, "message"),
        ("tavily", "tavily_search", {"query": "x" * 401}, "query"),
    ],
)
async def test_a_text_that_is_too_long_is_not_sent(
    provider: LoopbackProvider, server: str, tool: str, arguments: dict[str, str], name: str
) -> None:
    with pytest.raises(ToolError, match=name):
        await ask(provider.url, server, tool, arguments)
    assert provider.requests == []
