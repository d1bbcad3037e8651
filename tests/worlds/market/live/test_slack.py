"""Slack's pages, its errors, and posts: a message must not be sent twice."""

from dataclasses import replace
from typing import Any

import pytest

from tests.worlds.market.live.calls import DATA, KEY, PATIENCE, JumpingClock, ask, play_replies
from tests.worlds.market.provider import Answer, LoopbackProvider
from turnwise.mcp.serve import ToolError, Unavailable

LISTED = DATA["slack"]["replies"]["conversations.list"]
POSTED = DATA["slack"]["replies"]["chat.postMessage"]
HELLO = {"channel": "C012AB3CD", "message": "hello"}


async def post(provider: LoopbackProvider, message: dict[str, Any] = HELLO, **options: Any) -> Any:
    return await ask(provider.url, "slack", "send_slack_message", message, **options)


async def test_channels_are_listed_over_all_pages(provider: LoopbackProvider) -> None:
    first = LISTED | {"response_metadata": {"next_cursor": "dGVhbQ="}}
    second = LISTED | {"channels": [{"id": "C061EG9T2", "name": "random", "topic": {"value": ""}}]}
    provider.play("conversations.list", Answer(first), Answer(second))
    assert await ask(provider.url, "slack", "list_slack_channels") == [
        {"id": "C012AB3CD", "name": "general", "topic": "about general", "num_members": 4},
        {"id": "C061EG9T2", "name": "random", "topic": "", "num_members": None},
    ]
    assert [seen.query.get("cursor") for seen in provider.requests] == [None, "dGVhbQ="]
    assert provider.requests[1].headers["authorization"] == f"Bearer {KEY}"


async def test_a_list_of_channels_without_end_stops(provider: LoopbackProvider) -> None:
    provider.play("conversations.list", Answer(LISTED | {"response_metadata": {"next_cursor": "again"}}))
    assert len(await ask(provider.url, "slack", "list_slack_channels")) == len(provider.requests) == 25


@pytest.mark.parametrize("name", ["nowhere", "U012AB3CD", "D012AB3CD", "../chat.delete", "\ud800"])
async def test_an_unknown_channel_is_the_models_mistake(provider: LoopbackProvider, name: str) -> None:
    play_replies(provider, "slack")
    with pytest.raises(ToolError, match="list_slack_channels"):
        await post(provider, {"channel": name, "message": "hello"})
    assert [seen.path for seen in provider.requests] == ["/api/conversations.list"]


async def test_a_message_cannot_ping_everyone_and_reads_back_as_typed(provider: LoopbackProvider) -> None:
    play_replies(provider, "slack")
    typed = "<!channel> a < b && b > a &lt;"
    await post(provider, {"channel": "C012AB3CD", "message": typed})
    sent = provider.requests[0].body["text"]
    assert sent == "&lt;!channel&gt; a &lt; b &amp;&amp; b &gt; a &amp;lt;"
    provider.play("conversations.history", Answer({"ok": True, "messages": [{"text": sent, "ts": "1.0"}]}))
    [read] = await ask(provider.url, "slack", "get_slack_channel_history", {"channel_id": "C012AB3CD"})
    assert read["text"] == typed


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        *((error, ToolError) for error in ("channel_not_found", "not_in_channel", "is_archived")),
        *((error, ToolError) for error in ("msg_too_long", "no_text")),
        *((error, Unavailable) for error in ("invalid_auth", "token_revoked", "ratelimited")),
        *((error, Unavailable) for error in ("internal_error", "never_heard_of", None)),
    ],
)
async def test_an_error_is_the_models_mistake_only_if_it_can_correct_it(
    provider: LoopbackProvider, error: str | None, kind: type[Exception]
) -> None:
    provider.play("chat.postMessage", Answer({"ok": False, "error": error}))
    with pytest.raises(kind, match=error or "no reason given"):
        await post(provider)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        *(Answer(b"", 500), Answer(b"", 503), Answer(conduct="drop"), Answer(conduct="hang")),
        *(Answer(POSTED, conduct="cut"), Answer(b"{")),
    ],
    ids=["500", "503", "drop", "hang", "cut", "not JSON"],
)
async def test_a_post_that_may_have_been_made_is_sent_exactly_once(
    provider: LoopbackProvider, answer: Answer
) -> None:
    provider.play("chat.postMessage", answer, Answer(POSTED))
    patience = replace(PATIENCE, read_seconds=0.3) if answer.conduct == "hang" else PATIENCE
    with pytest.raises(Unavailable):
        await post(provider, patience=patience)
    assert len(provider.requests) == 1


async def test_a_post_refused_by_the_rate_limit_is_sent_again(provider: LoopbackProvider) -> None:
    limited = Answer({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": "3"})
    provider.play("chat.postMessage", limited, Answer(POSTED))
    clock = JumpingClock()
    assert (await post(provider, clock=clock))["ok"] is True
    assert clock.slept == [3.0]


async def test_a_post_that_was_never_sent_is_tried_again(refusing_url: str) -> None:
    clock = JumpingClock()
    with pytest.raises(Unavailable, match="could not be reached"):
        await ask(refusing_url, "slack", "send_slack_message", HELLO, clock=clock)
    assert clock.slept == [0.5, 1.0, 2.0]
