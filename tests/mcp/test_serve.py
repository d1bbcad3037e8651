"""The serving seam through real processes, stdio and HTTP: values, faults, episodes as a client sees them."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

import turnwise
from tests.mcp.notes import SERVER, http_spec, notes_over_http, notes_spec
from turnwise.mcp.pool import Pool
from turnwise.mcp.serve import SILENT_SECONDS, _Known
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import Isolation, ServerSpec
from turnwise.types import Cause, Fault, ToolCall, ToolResult

Ask = Callable[..., Awaitable[ToolResult]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with notes_over_http() as found:
        yield found


@pytest.fixture(params=["stdio", "http"])
def spec(request: pytest.FixtureRequest, url: str) -> ServerSpec:
    return notes_spec() if request.param == "stdio" else http_spec(url)


@contextlib.asynccontextmanager
async def episode(spec: ServerSpec, name: str = "e") -> AsyncIterator[Ask]:
    async with Pool([spec]) as pool, pool.lease(["notes"], name) as toolbox:

        async def ask(tool: str, **arguments: Any) -> ToolResult:
            [result] = await toolbox.call([ToolCall("1", tool, arguments)])
            return result

        yield ask


async def test_a_string_is_sent_as_it_is_and_anything_else_as_compact_json(spec: ServerSpec) -> None:
    async with episode(spec) as ask:
        assert (await ask("say", text="plain é\n  text")).content == "plain é\n  text"
        arguments = {
            "é": [1, 2.5, None, True],
            "big": 10**30,
            "deep": {"a": {"b": "\U0001f600"}},
            "nul": "a\x1fb",
        }
        echoed = await ask("echo", **arguments)
        assert echoed.cause is Cause.OK
        assert json.loads(echoed.content.replace("\\u001f", "\x1f"), strict=False) == arguments
        assert " " not in echoed.content


async def test_faults_keep_their_meaning_on_the_way(spec: ServerSpec) -> None:
    async with episode(spec) as ask:
        wrong = await ask("wrong")
        assert (wrong.cause, wrong.fault) == (Cause.TOOL_ERROR, Fault.MODEL)
        assert "no ticker 'ZZZZ'" in wrong.content
        down = await ask("unavailable")
        assert (down.cause, down.fault) == (Cause.UPSTREAM, Fault.INFRA)
        assert "provider says 503" in down.content
        bug = await ask("buggy")
        assert (bug.cause, bug.fault) == (Cause.UPSTREAM, Fault.INFRA)
        assert "KeyError in buggy" in bug.content
        assert "sk-inside-the-bug" not in bug.content, "a bug's message may hold anything"
        assert (await ask("say", text="still there")).content == "still there"


async def test_a_value_that_is_not_json_is_the_servers_fault(spec: ServerSpec) -> None:
    async with episode(spec) as ask:
        assert (await ask("unwritable")).fault is Fault.INFRA


async def test_text_that_is_not_unicode_does_not_end_the_server_for_everyone() -> None:
    async with episode(notes_spec()) as ask:
        await ask("half_character")
        assert (await ask("say", text="still there")).content == "still there"


async def test_state_is_kept_per_episode_and_dropped_with_its_lease(spec: ServerSpec) -> None:
    async with Pool([spec]) as pool:
        async with pool.lease(["notes"], "one") as one, pool.lease(["notes"], "two") as two:
            await one.call([ToolCall("1", "add_note", {"text": "mine"})])
            [seen_by_two] = await two.call([ToolCall("1", "list_notes", {})])
            [seen_by_one] = await one.call([ToolCall("1", "list_notes", {})])
            assert json.loads(seen_by_two.content)["notes"] == []
            seen = json.loads(seen_by_one.content)
            assert (seen["notes"], names(seen["episodes"])) == (["mine"], ["one", "two"])
            assert seen["episode"] in seen["episodes"]
        assert pool.isolation("notes") is Isolation.KEYED
        async with pool.lease(["notes"], "one") as again:
            [seen] = await again.call([ToolCall("1", "list_notes", {})])
            assert json.loads(seen.content)["notes"] == []
            assert names(json.loads(seen.content)["episodes"]) == ["one"]


def names(keys: list[str]) -> list[str]:
    """Of episodes, without what keeps those of one name apart."""
    return [key.rpartition("/")[0] for key in keys]


async def test_workers_that_share_a_server_keep_episodes_of_one_id_apart(url: str) -> None:
    async with Pool([http_spec(url)]) as first, Pool([http_spec(url)]) as second:
        async with first.lease(["notes"], "e") as mine, second.lease(["notes"], "e") as other:
            await mine.call([ToolCall("1", "add_note", {"text": "mine"})])
            [seen] = await other.call([ToolCall("1", "list_notes", {})])
            assert json.loads(seen.content)["notes"] == []
        async with second.lease(["notes"], "e") as again:
            [seen] = await again.call([ToolCall("1", "list_notes", {})])
            assert names(json.loads(seen.content)["episodes"]) == ["e"], "both are dropped"


async def test_a_restarted_http_server_has_lost_the_episode_and_is_not_called_as_if_it_had_not() -> None:
    """Between two calls, and the new process has the old one's address: no connection ever fails."""

    with contextlib.ExitStack() as first:
        url = first.enter_context(notes_over_http())
        async with (
            Pool([http_spec(url)]) as pool,
            pool.lease(["notes"], "e") as toolbox,
            pool.lease(["notes"], "idle") as idle,
        ):
            await toolbox.call([ToolCall("1", "add_note", {"text": "kept"})])
            await asyncio.to_thread(first.close)
            with notes_over_http("--port", str(urlsplit(url).port)):
                [seen] = await toolbox.call([ToolCall("2", "list_notes", {})])
                assert (seen.cause, seen.fault) == (Cause.CLOSED, Fault.INFRA)
                assert "restarted" in seen.content
                assert [loss.is_state_lost for loss in toolbox.losses] == [True]
                [unharmed] = await idle.call([ToolCall("1", "list_notes", {})])
                assert unharmed.cause is Cause.OK, "it had nothing there yet"


@contextlib.asynccontextmanager
async def without_discovery(url: str, is_cut: asyncio.Event, reply: bytes = b"") -> AsyncIterator[str]:
    """The URL of a proxy that, once the event is set, answers `server/discover` with `reply` and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        [length] = re.findall(rb"content-length: (\d+)", head.lower()) or [b"0"]
        body = await reader.readexactly(int(length))
        if is_cut.is_set() and b"server/discover" in body:
            writer.write(reply)
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


async def test_an_outage_while_connecting_does_not_hide_that_a_server_keeps_episodes_apart(url: str) -> None:
    is_cut = asyncio.Event()
    is_cut.set()
    async with without_discovery(url, is_cut) as proxied, Pool([http_spec(proxied)]) as pool:
        with pytest.raises(ConnectFailed, match="connection failed"):
            async with pool.lease(["notes"], "one"):
                pass
        is_cut.clear()
        async with pool.lease(["notes"], "two"):
            assert pool.isolation("notes") is Isolation.KEYED


async def test_a_server_that_comes_back_without_keeping_episodes_apart_is_refused(url: str) -> None:
    is_cut = asyncio.Event()
    reply = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    async with without_discovery(url, is_cut, reply) as proxied, Pool([http_spec(proxied)]) as pool:
        async with pool.lease(["notes"], "one") as toolbox:
            await toolbox.call([ToolCall("1", "add_note", {"text": "mine"})])
        assert pool.isolation("notes") is Isolation.KEYED
        session = pool._supplies["notes"]._first
        assert session is not None
        session.abandon("a fault")
        is_cut.set()
        with pytest.raises(ConnectFailed, match="without keeping episodes apart"):
            async with pool.lease(["notes"], "two"):
                pass
        is_cut.clear()
        async with pool.lease(["notes"], "three"):
            assert pool.isolation("notes") is Isolation.KEYED


async def test_an_episode_whose_worker_died_is_dropped_in_the_end() -> None:
    now, dropped = 0.0, list[str]()

    async def drop(episode: str) -> None:
        dropped.append(episode)

    async def main() -> None:
        nonlocal now
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

    await main()


async def test_a_server_without_state_is_not_told_of_episodes_nor_asked_to_drop_them() -> None:
    async with Pool([notes_spec("--unkeyed", isolation="shared")]) as pool:
        async with pool.lease(["notes"], "one") as toolbox:
            [seen] = await toolbox.call([ToolCall("1", "list_notes", {})])
            assert json.loads(seen.content)["episode"] == ""
        assert pool.isolation("notes") is Isolation.SHARED


async def test_tools_are_listed_with_their_schemas_and_hints(spec: ServerSpec) -> None:
    async with Pool([spec]) as pool:
        assert await pool.connect() == {}
        tools = {tool.name: tool for tool in pool.tools}
        assert tools["add_note"].input_schema["required"] == ["text"]
        assert not tools["add_note"].is_repeatable
        assert tools["list_notes"].is_read_only
        assert tools["add_note"].description == "Keep a note."


async def test_many_calls_at_once_each_get_their_own_answer(spec: ServerSpec) -> None:
    async with Pool([spec]) as pool, pool.lease(["notes"], "e") as toolbox:
        calls = [ToolCall(str(number), "say", {"text": f"n{number}"}) for number in range(100)]
        results = await toolbox.call(calls)
        assert [result.content for result in results] == [f"n{number}" for number in range(100)]
        assert [result.call_id for result in results] == [call.id for call in calls]


# --- the wire itself, without a client of ours -------------------------------------------------------------


def rpc(method: str, number: int | None = None, **params: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
    return message if number is None else {**message, "id": number}


HELLO = rpc(
    "initialize", 0, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "raw", "version": "1"}
)


def talk(*messages: dict[str, Any] | str) -> tuple[list[dict[str, Any]], int]:
    """Say these lines to a stdio server, hear it out to the last request's reply, close its stdin."""
    lines = [message if isinstance(message, str) else json.dumps(message) for message in messages]
    last = json.loads(lines[-1])["id"]
    replies: list[dict[str, Any]] = []
    argv = [sys.executable, str(SERVER)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        # Its end of input would cancel what it is still answering.
        while not any(reply.get("id") == last for reply in replies):
            replies.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        replies.extend(json.loads(line) for line in process.stdout)
        return replies, process.wait(30)


def test_stdout_carries_only_json_rpc_and_the_server_ends_with_its_stdin() -> None:
    replies, code = talk(
        HELLO, rpc("notifications/initialized"), rpc("tools/call", 1, name="buggy", arguments={})
    )
    assert code == 0
    assert {reply["jsonrpc"] for reply in replies} == {"2.0"}
    by_id = {reply["id"]: reply for reply in replies}
    assert by_id[0]["result"]["serverInfo"] == {"name": "notes", "version": turnwise.__version__}
    assert by_id[1]["result"]["isError"] is True


def test_an_unknown_tool_is_an_error_result_that_names_it() -> None:
    replies, _ = talk(
        HELLO, rpc("notifications/initialized"), rpc("tools/call", 1, name="nope", arguments={})
    )
    [answer] = [reply for reply in replies if reply["id"] == 1]
    assert answer["result"]["isError"] is True
    assert "unknown tool 'nope'" in answer["result"]["content"][0]["text"]


def test_junk_on_stdin_does_not_end_the_server() -> None:
    replies, code = talk(
        "junk",
        HELLO,
        '{"half":',
        rpc("notifications/initialized"),
        rpc("tools/call", 1, name="echo", arguments={}),
    )
    assert code == 0
    assert [reply["result"]["content"][0]["text"] for reply in replies if reply.get("id") == 1] == ["{}"]


def test_http_refuses_a_foreign_host_so_that_no_web_page_reaches_it(url: str) -> None:
    body = json.dumps(HELLO)
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    with httpx2.Client() as client:
        assert client.post(url, content=body, headers=headers).status_code == 200
        assert client.post(url, content=body, headers={**headers, "host": "evil.example"}).status_code >= 400
        assert (
            client.post(url, content=body, headers={**headers, "origin": "https://evil.example"}).status_code
            >= 400
        )


def test_http_junk_is_refused_and_the_server_goes_on(url: str) -> None:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    with httpx2.Client() as client:
        for body in (b"junk", b"", b"[]", b"\xff\xfe", b"[" * 10_000):
            assert 400 <= client.post(url, content=body, headers=headers).status_code < 500
        assert client.post(url, content=json.dumps(HELLO), headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer open-sesame", "origin": "https://evil.example.com"}, 403),
        ({"authorization": "Bearer open-sesame"}, 200),
    ],
)
def test_a_server_that_others_can_reach_asks_for_its_token_and_turns_pages_away(
    headers: dict[str, str], status: int
) -> None:
    with notes_over_http("--token", "open-sesame") as url:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accept = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        assert httpx2.post(url, json=asked, headers={**accept, **headers}).status_code == status
