"""Our servers as a client sees them, over stdio and HTTP in real processes: values, faults, episodes."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

import turnwise
from tests import warm
from tests.mcp.leases import ask, leased
from tests.mcp.notes import SERVER, http_spec, notes_over_http, notes_spec
from tests.mcp.raw_stdio import talk
from turnwise.mcp.pool import Pool
from turnwise.mcp.serve import SILENT_SECONDS, _Known
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import Isolation, ServerSpec
from turnwise.types import Cause, Fault, ToolCall


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with notes_over_http() as found:
        yield found


@pytest.fixture(params=["stdio", "http"])
def spec(request: pytest.FixtureRequest, url: str) -> ServerSpec:
    return notes_spec() if request.param == "stdio" else http_spec(url)


async def notes_in(toolbox: Any) -> dict[str, Any]:
    """The notes of the episode, and the names of all episodes that the server knows."""
    seen: dict[str, Any] = json.loads((await ask(toolbox, "list_notes")).content)
    assert seen["episode"] in seen["episodes"]
    return {"notes": seen["notes"], "episodes": [key.rpartition("/")[0] for key in seen["episodes"]]}


async def test_values_and_faults_keep_their_meaning_on_the_way(spec: ServerSpec) -> None:
    async with leased(spec) as toolbox:
        assert (await ask(toolbox, "say", text="plain é\n  text")).content == "plain é\n  text"
        arguments = {
            "é": [1, 2.5, None, True],
            "big": 10**30,
            "deep": {"a": {"b": "\U0001f600"}},
            "c": "a\x1fb",
        }
        echoed = await ask(toolbox, "echo", **arguments)
        assert echoed.cause is Cause.OK
        assert json.loads(echoed.content.replace("\\u001f", "\x1f"), strict=False) == arguments
        assert " " not in echoed.content
        for tool, cause, message in (
            ("wrong", Cause.TOOL_ERROR, "no ticker 'ZZZZ'"),
            ("unavailable", Cause.UPSTREAM, "provider says 503"),
            ("buggy", Cause.UPSTREAM, "KeyError in buggy"),
            ("unwritable", Cause.UPSTREAM, ""),
        ):
            failed = await ask(toolbox, tool)
            assert (failed.cause, failed.fault) == (cause, Fault.MODEL if tool == "wrong" else Fault.INFRA)
            assert message in failed.content
            assert "sk-inside-the-bug" not in failed.content, "the message of a bug may contain anything"
        await ask(toolbox, "half_character")
        calls = [ToolCall(str(number), "say", {"text": f"n{number}"}) for number in range(100)]
        results = await toolbox.call(calls)
        assert [result.content for result in results] == [f"n{number}" for number in range(100)]
        assert [result.call_id for result in results] == [call.id for call in calls]


async def test_tools_have_schemas_and_hints_and_state_is_kept_per_episode(spec: ServerSpec) -> None:
    async with Pool([spec]) as pool:
        assert await pool.connect() == {}
        tools = {tool.name: tool for tool in pool.tools}
        assert tools["add_note"].input_schema["required"] == ["text"]
        assert (tools["add_note"].description, tools["add_note"].is_repeatable) == ("Keep a note.", False)
        assert tools["list_notes"].is_read_only
        assert pool.isolation("notes") is Isolation.KEYED
        async with pool.lease(["notes"], "one") as one, pool.lease(["notes"], "two") as two:
            await ask(one, "add_note", text="mine")
            assert (await notes_in(two))["notes"] == []
            assert await notes_in(one) == {"notes": ["mine"], "episodes": ["one", "two"]}
        async with pool.lease(["notes"], "one") as again:
            assert await notes_in(again) == {"notes": [], "episodes": ["one"]}, "dropped with its lease"


async def test_episodes_of_one_id_from_two_workers_are_kept_apart(url: str) -> None:
    async with Pool([http_spec(url)]) as first, Pool([http_spec(url)]) as second:
        async with first.lease(["notes"], "e") as mine, second.lease(["notes"], "e") as other:
            await ask(mine, "add_note", text="mine")
            assert (await notes_in(other))["notes"] == []
        async with second.lease(["notes"], "e") as again:
            assert (await notes_in(again))["episodes"] == ["e"], "both are dropped"


async def test_a_restarted_http_server_has_lost_the_episode() -> None:
    """It restarts between two calls at the same address, so no connection ever fails."""
    with contextlib.ExitStack() as first:
        url = first.enter_context(notes_over_http())
        async with (
            Pool([http_spec(url)]) as pool,
            pool.lease(["notes"], "e") as toolbox,
            pool.lease(["notes"], "idle") as idle,
        ):
            await ask(toolbox, "add_note", text="kept")
            await asyncio.to_thread(first.close)
            with notes_over_http("--port", str(urlsplit(url).port)):
                seen = await ask(toolbox, "list_notes")
                assert (seen.cause, seen.fault) == (Cause.CLOSED, Fault.INFRA)
                assert "restarted" in seen.content
                assert [loss.is_state_lost for loss in toolbox.losses] == [True]
                assert (await ask(idle, "list_notes")).cause is Cause.OK, "it had no state to lose"


@contextlib.asynccontextmanager
async def without_discovery(url: str, replies: list[bytes]) -> AsyncIterator[str]:
    """The URL of a proxy that answers `server/discover` with the reply in the list, if there is one."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = re.findall(rb"content-length: (\d+)", head.lower()) or [b"0"]
        body = await reader.readexactly(int(length))
        if replies and b"server/discover" in body:
            writer.write(replies[0])
        else:
            upstream, to_upstream = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
            host = f"127.0.0.1:{urlsplit(url).port}".encode()
            head = re.sub(rb"(?i)\r\nhost: [^\r]*", b"\r\nhost: " + host, head)
            head = re.sub(rb"(?i)\r\nconnection: [^\r]*", b"\r\nconnection: close", head)
            to_upstream.write(head + body)
            writer.write(await upstream.read(-1))
            to_upstream.close()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"


async def test_an_outage_never_makes_a_pool_share_state_between_episodes(url: str) -> None:
    replies = [b""]
    async with without_discovery(url, replies) as proxied, Pool([http_spec(proxied)]) as pool:
        with pytest.raises(ConnectFailed, match="connection failed"):
            async with pool.lease(["notes"], "one"):
                pass
        replies.clear()
        async with pool.lease(["notes"], "two") as toolbox:
            await ask(toolbox, "add_note", text="mine")
            assert pool.isolation("notes") is Isolation.KEYED
        session = pool._supplies["notes"]._first
        assert session is not None
        session.abandon("a fault")
        replies.append(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        with pytest.raises(ConnectFailed, match="without keeping episodes apart"):
            async with pool.lease(["notes"], "three"):
                pass
        replies.clear()
        async with pool.lease(["notes"], "four"):
            assert pool.isolation("notes") is Isolation.KEYED


async def test_the_episode_of_a_dead_worker_is_dropped_after_a_long_silence() -> None:
    now, dropped = 0.0, list[str]()

    async def drop(episode: str) -> None:
        dropped.append(episode)

    known = _Known(drop, clock=lambda: now)
    for episode in ("dead", "slow", "over"):
        await known.heard_of(episode)
    known.gone("over")
    now = SILENT_SECONDS
    await known.heard_of("slow")
    assert dropped == []
    now += 1.0
    await known.heard_of("new")
    assert dropped == ["dead"]
    await _Known(None).heard_of("any")


async def test_a_server_without_state_gets_no_episode_ids() -> None:
    async with Pool([notes_spec("--unkeyed", isolation="shared")]) as pool:
        async with pool.lease(["notes"], "one") as toolbox:
            assert json.loads((await ask(toolbox, "list_notes")).content)["episode"] == ""
        assert pool.isolation("notes") is Isolation.SHARED


# --- the protocol, without our client ----------------------------------------------------------------------


def rpc(method: str, number: int | None = None, **params: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if number is None else {**message, "id": number}


CLIENT = {"name": "raw", "version": "1"}
HELLO = rpc("initialize", 0, protocolVersion="2025-06-18", capabilities={}, clientInfo=CLIENT)


def test_a_stdio_server_survives_junk_writes_only_json_rpc_and_ends_with_its_stdin() -> None:
    tools = ("buggy", "nope", "echo")
    calls = [rpc("tools/call", number, name=tool, arguments={}) for number, tool in enumerate(tools, 1)]
    messages = ["junk", HELLO, '{"half":', rpc("notifications/initialized"), *calls]
    replies, exit_code = talk([warm.light(), str(SERVER)], messages)
    assert exit_code == 0
    assert replies[0]["result"]["serverInfo"] == {"name": "notes", "version": turnwise.__version__}
    assert [replies[number]["result"].get("isError", False) for number in (1, 2, 3)] == [True, True, False]
    assert "unknown tool 'nope'" in replies[2]["result"]["content"][0]["text"]
    assert replies[3]["result"]["content"][0]["text"] == "{}"


def status(url: str, body: bytes, **headers: str) -> int:
    accepted = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    return httpx2.post(url, content=body, headers={**accepted, **headers}).status_code


def test_an_http_server_refuses_junk_and_requests_from_web_pages(url: str) -> None:
    hello = json.dumps(HELLO).encode()
    for body in (b"junk", b"", b"[]", b"\xff\xfe", b"[" * 10_000):
        assert 400 <= status(url, body) < 500
    assert status(url, hello, host="evil.example") >= 400
    assert status(url, hello, origin="https://evil.example") >= 400
    assert status(url, hello) == 200


def test_a_server_with_a_token_refuses_requests_without_it() -> None:
    hello, right = json.dumps(HELLO).encode(), "Bearer open-sesame"
    with notes_over_http("--token", "open-sesame") as url:
        assert status(url, hello) == 401
        assert status(url, hello, authorization="Bearer wrong") == 401
        assert status(url, hello, authorization=right, origin="https://evil.example.com") == 403
        assert status(url, hello, authorization=right) == 200
