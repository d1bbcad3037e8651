"""Both backends of a tool answer with the same keys in the same order, so a policy can move between them."""

from typing import Any

import pytest

from tests.worlds.market.live.calls import environ, play_replies
from tests.worlds.market.provider import LoopbackProvider
from turnwise.worlds.market.contract import contract
from turnwise.worlds.market.live.providers import ACCESS
from turnwise.worlds.market.services import Backend, open_service

LIVE = {
    **{"symbol": "AAPL", "ticker": "AAPL", "start_date": "2024-01-02", "end_date": "2024-01-03"},
    **{"query": "apple", "channel": "general", "channel_id": "general", "message": "hello"},
}
EMBEDDED = LIVE | {"symbol": "THOVH", "ticker": "THOVH", "start_date": "2026-06-29", "end_date": "2026-06-30"}


def shape(value: Any) -> Any:
    """Keys in order, lists by their first item, values by JSON type."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [shape(value[0])]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if is_number else type(value).__name__


@pytest.mark.parametrize("server", ACCESS)
async def test_live_answers_have_the_embedded_shape(provider: LoopbackProvider, server: str) -> None:
    play_replies(provider, server)
    variables = environ(server, provider.url)
    async with (
        open_service(server, Backend.EMBEDDED, {}) as embedded,
        open_service(server, Backend.LIVE, variables, may_write=server == "slack") as live,
    ):
        handlers = {tool.name: tool.handler for tool in live.tools}
        assert [tool.name for tool in embedded.tools] == list(handlers)
        for tool in embedded.tools:
            spec = next(row for row in contract()["servers"][server]["tools"] if row["name"] == tool.name)
            required = spec["inputSchema"]["required"]
            expected = shape(await tool.handler({key: EMBEDDED[key] for key in required}, "episode-1"))
            answer = await handlers[tool.name]({key: LIVE[key] for key in required}, "episode-1")
            assert shape(answer) == expected, tool.name
