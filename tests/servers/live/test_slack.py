"""Slack's live backend against a server that answers as the Web API is documented to."""

import socket
from dataclasses import replace
from typing import Any

import pytest

from tests.servers.live.play import KEY, PATIENCE, JumpingClock, ask, ask_all
from tests.servers.provider import Answer, LoopbackProvider
from turnwise.mcp.serve import ToolError, Unavailable

POSTED = {
    "ok": True,
    "channel": "C012AB3CD",
    "ts": "1503435956.000247",
    "message": {"text": "hello", "username": "bot", "type": "message", "ts": "1503435956.000247"},
}
HELLO = {"channel": "C012AB3CD", "message": "hello"}


def channel(id: str, name: str) -> dict[str, Any]:
    return {
        "id": id,
        "name": name,
        "is_channel": True,
        "is_archived": False,
        "topic": {"value": f"about {name}", "creator": "U1", "last_set": 1449709364},
        "purpose": {"value": "For all", "creator": "", "last_set": 0},
        "num_members": 4,
    }


def page(*channels: dict[str, Any], cursor: str = "") -> Answer:
    return Answer({"ok": True, "channels": list(channels), "response_metadata": {"next_cursor": cursor}})


def test_channels_are_listed_over_all_pages(provider: LoopbackProvider) -> None:
    provider.play(
        "conversations.list",
        page(channel("C012AB3CD", "general"), cursor="dGVhbTpDMDYxRkE1UEI="),
        page(channel("C061EG9T2", "random")),
    )
    assert ask(provider, "list_slack_channels") == [
        {"id": "C012AB3CD", "name": "general", "topic": "about general", "num_members": 4},
        {"id": "C061EG9T2", "name": "random", "topic": "about random", "num_members": 4},
    ]
    first, second = provider.requests
    assert first.query == {"types": "public_channel", "exclude_archived": "true", "limit": "200"}
    assert second.query["cursor"] == "dGVhbTpDMDYxRkE1UEI="
    assert first.headers["authorization"] == f"Bearer {KEY}"


def test_a_listing_without_end_stops(provider: LoopbackProvider) -> None:
    provider.play("conversations.list", page(channel("C012AB3CD", "general"), cursor="again"))
    assert len(ask(provider, "list_slack_channels")) == len(provider.requests) == 25


def test_a_message_goes_to_an_id_in_one_request(provider: LoopbackProvider) -> None:
    provider.play("chat.postMessage", Answer(POSTED))
    answer = ask(provider, "send_slack_message", HELLO)
    assert answer == {"ok": True, "channel": "C012AB3CD", "ts": "1503435956.000247"}
    (seen,) = provider.requests
    assert (seen.method, seen.body) == ("POST", {"channel": "C012AB3CD", "text": "hello"})


def test_a_name_is_looked_up_once_and_remembered(provider: LoopbackProvider) -> None:
    provider.play("conversations.list", page(channel("C012AB3CD", "general")))
    provider.play("chat.postMessage", Answer(POSTED))
    calls = [
        ("send_slack_message", {"channel": name, "message": "hello"}) for name in ("#general", "general")
    ]
    ask_all(provider, calls)
    assert [seen.path for seen in provider.requests] == [
        "/api/conversations.list",
        "/api/chat.postMessage",
        "/api/chat.postMessage",
    ]
    assert {seen.body["channel"] for seen in provider.requests[1:]} == {"C012AB3CD"}


@pytest.mark.parametrize("name", ["nowhere", "U012AB3CD", "D012AB3CD", "../chat.delete", "\ud800"])
def test_an_unknown_channel_is_the_models_mistake(provider: LoopbackProvider, name: str) -> None:
    provider.play("conversations.list", page(channel("C012AB3CD", "general")))
    with pytest.raises(ToolError, match="list_slack_channels"):
        ask(provider, "send_slack_message", {"channel": name, "message": "hello"})
    assert [seen.path for seen in provider.requests] == ["/api/conversations.list"]


def test_a_message_cannot_ping_everyone_and_reads_back_as_typed(provider: LoopbackProvider) -> None:
    provider.play("chat.postMessage", Answer(POSTED))
    typed = "<!channel> a < b && b > a &lt;"
    ask(provider, "send_slack_message", {"channel": "C012AB3CD", "message": typed})
    sent = provider.requests[0].body["text"]
    assert sent == "&lt;!channel&gt; a &lt; b &amp;&amp; b &gt; a &amp;lt;"
    provider.play("conversations.history", Answer({"ok": True, "messages": [{"text": sent, "ts": "1.0"}]}))
    (read,) = ask(provider, "get_slack_channel_history", {"channel_id": "C012AB3CD"})
    assert read["text"] == typed


def test_history_comes_newest_first_with_a_name_for_bots(provider: LoopbackProvider) -> None:
    messages = [
        {
            "type": "message",
            "subtype": "bot_message",
            "bot_id": "B1",
            "text": "beep",
            "ts": "1512085950.0002",
        },
        {"type": "message", "user": "U012AB3CDE", "text": "I find you punny", "ts": "1512085861.0005"},
        {"type": "message", "user": "U061F7AUR", "text": "More than the limit", "ts": "1512085860.0005"},
    ]
    provider.play("conversations.history", Answer({"ok": True, "messages": messages, "has_more": False}))
    answer = ask(provider, "get_slack_channel_history", {"channel_id": "C012AB3CD", "limit": 2})
    assert answer == [
        {"user": "B1", "text": "beep", "ts": "1512085950.0002"},
        {"user": "U012AB3CDE", "text": "I find you punny", "ts": "1512085861.0005"},
    ]
    assert provider.requests[0].query == {"channel": "C012AB3CD", "limit": "2"}


@pytest.mark.parametrize(
    "error", ["channel_not_found", "not_in_channel", "msg_too_long", "no_text", "is_archived"]
)
def test_what_the_model_can_put_right_is_its_mistake(provider: LoopbackProvider, error: str) -> None:
    provider.play("chat.postMessage", Answer({"ok": False, "error": error}))
    with pytest.raises(ToolError, match=error):
        ask(provider, "send_slack_message", HELLO)


@pytest.mark.parametrize(
    "error", ["invalid_auth", "token_revoked", "ratelimited", "internal_error", "never_heard_of", None]
)
def test_any_other_error_is_the_providers(provider: LoopbackProvider, error: str | None) -> None:
    provider.play("chat.postMessage", Answer({"ok": False, "error": error}))
    with pytest.raises(Unavailable, match=error or "no reason given"):
        ask(provider, "send_slack_message", HELLO)
    assert len(provider.requests) == 1


def test_a_missing_scope_names_the_scope(provider: LoopbackProvider) -> None:
    refusal = {"ok": False, "error": "missing_scope", "needed": "channels:read", "provided": "chat:write"}
    provider.play("conversations.list", Answer(refusal))
    with pytest.raises(Unavailable, match="SLACK_BOT_TOKEN needs channels:read"):
        ask(provider, "list_slack_channels")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"", 500),
        Answer(b"", 503),
        Answer(conduct="drop"),
        Answer(conduct="hang"),
        Answer(POSTED, conduct="cut"),
        Answer(b"{"),
    ],
)
def test_a_post_whose_fate_is_unknown_is_sent_exactly_once(
    provider: LoopbackProvider, answer: Answer
) -> None:
    provider.play("chat.postMessage", answer, Answer(POSTED))
    patience = replace(PATIENCE, read_seconds=0.5) if answer.conduct == "hang" else PATIENCE
    with pytest.raises(Unavailable):
        ask(provider, "send_slack_message", HELLO, patience=patience)
    assert len(provider.requests) == 1


def test_a_post_turned_away_by_the_rate_limit_is_sent_again(provider: LoopbackProvider) -> None:
    limited = Answer({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": "3"})
    provider.play("chat.postMessage", limited, Answer(POSTED))
    clock = JumpingClock()
    assert ask(provider, "send_slack_message", HELLO, clock=clock)["ok"] is True
    assert clock.slept == [3.0]


def test_a_post_that_found_no_one_listening_is_tried_again(
    provider: LoopbackProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = JumpingClock()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connecting is refused
        monkeypatch.setattr(LoopbackProvider, "url", f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(Unavailable, match="could not be reached"):
            ask(provider, "send_slack_message", HELLO, clock=clock)
    assert clock.slept == [0.5, 1.0, 2.0]


@pytest.mark.parametrize("message", ["", "  ", None, "x" * 40_001])
def test_a_message_without_text_or_end_never_leaves_the_machine(
    provider: LoopbackProvider, message: Any
) -> None:
    with pytest.raises(ToolError, match="message"):
        ask(provider, "send_slack_message", {"channel": "C012AB3CD", "message": message})
    assert provider.requests == []
