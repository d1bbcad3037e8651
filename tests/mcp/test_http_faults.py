"""Every way an HTTP server can fail ends in the right fault, for that call alone, and leaks nothing."""

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.types import Cause, Fault, ToolCall, ToolResult


@dataclass
class Door:
    """Turns requests away, as a limit on their rate does: what a window is full for waits for the next."""

    method: str = "tools/call"
    status: int = 429
    seconds: float = 0.5
    """How long the first window lasts, which lets nothing in."""
    says: str = "0.5"
    is_ever_open: bool = True
    num_refused: int = 0
    num_greeted: int = 0
    closed_at: float | None = None

    def refusal(self, method: str) -> tuple[int, str] | None:
        self.num_greeted += method == "initialize"
        if method != self.method or not self.says:
            return None
        self.closed_at = self.closed_at or time.monotonic()
        if self.is_ever_open and time.monotonic() >= self.closed_at + self.seconds:
            return None
        self.num_refused += 1
        return self.status, self.says


OPEN = Door(says="")
BOMB = "z" * 30_000_000
"""30 MB that gzip packs into 30 kB: more than a message may have."""


class Handler(BaseHTTPRequestHandler):
    """A legacy-era streamable HTTP server; a tool call's `what` says how to fail."""

    protocol_version = "HTTP/1.1"
    failing_calls: dict[str, int]
    open_connections: set[socket.socket]
    door: "Door"
    token = ""

    def setup(self) -> None:
        super().setup()
        self.open_connections.add(self.connection)

    def drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, arguments = body["method"], (body.get("params") or {}).get("arguments") or {}
        if self.token and self.headers.get("authorization") != f"Bearer {self.token}":
            return self.reply(401, b"who are you?", "text/plain")
        if (refusal := self.door.refusal(method)) is not None:
            status, seconds = refusal
            self.send_response(status)
            self.send_header("retry-after", seconds)
            self.send_header("content-length", "0")
            return self.end_headers()
        if method == "tools/call":
            return self.call(body["id"], arguments)
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            return self.result(body["id"], {**result, "serverInfo": {"name": "http", "version": "1"}})
        if method == "tools/list":
            tool = {"name": "do", "inputSchema": {"type": "object"}}
            reading = {**tool, "name": "read", "annotations": {"readOnlyHint": True}}
            return self.result(body["id"], {"tools": [tool, reading]})
        if "id" not in body:
            return self.reply(202, b"", "text/plain")
        return self.reply(404, b"no such method", "text/plain")

    def do_GET(self) -> None:
        self.reply(405, b"", "text/plain")

    def do_DELETE(self) -> None:
        self.reply(405, b"", "text/plain")

    def call(self, request_id: int, arguments: dict[str, Any]) -> None:
        what = arguments.get("what", "echo")
        if what == "once" and not self.failing_calls.setdefault(arguments["key"], 0):
            self.failing_calls[arguments["key"]] += 1
            return self.reply(503, b"busy", "text/plain")
        if isinstance(what, int):
            return self.reply(what, b"<html>no</html>" * arguments.get("times", 1), "text/html")
        if what == "moved":
            return self.reply(307, b"", "text/html", location="https://elsewhere.example.com/mcp?key=x")
        if what == "moved nowhere":
            return self.reply(307, b"", "text/html", location="//[")
        if what in ("gzip", "bomb", "br", "bad gzip"):
            message = {"jsonrpc": "2.0", "id": request_id, "result": text("fine" if what != "bomb" else BOMB)}
            body = gzip.compress(json.dumps(message).encode())
            body = b"no gzip" if what == "bad gzip" else body
            encoding = "br" if what == "br" else "gzip"
            return self.reply(200, body, "application/json", encoding=encoding)
        if what == "gzip stream":
            return self.reply(200, gzip.compress(b"data: {}\n\n"), "text/event-stream", encoding="gzip")
        if what == "drop":
            return self.drop()
        if what == "drop_json":
            self.head(200, "application/json", 1000)
            self.wfile.write(b'{"jsonrpc":')
            return self.drop()
        if what == "drop_stream":
            self.head(200, "text/event-stream", None)
            self.wfile.write(b": hello\n\n")
            return self.drop()
        if what == "junk":
            return self.reply(200, b"{]", "application/json")
        if what == "html":
            return self.reply(200, b"<html>login</html>", "text/html")
        if what == "big":
            return self.result(request_id, text("z" * 50_000_000))
        if what == "sleep":
            threading.Event().wait(1)
        return self.result(request_id, text("fine"))

    def result(self, request_id: int, result: dict[str, Any]) -> None:
        message = {"jsonrpc": "2.0", "id": request_id, "result": result}
        self.reply(200, json.dumps(message).encode(), "application/json")

    def reply(self, status: int, body: bytes, kind: str, location: str = "", encoding: str = "") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if location:
            self.send_header("location", location)
        if encoding:
            self.send_header("content-encoding", encoding)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)

    def head(self, status: int, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        if length is not None:
            self.send_header("content-length", str(length))
        self.end_headers()


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


@contextlib.contextmanager
def http_server(token: str = "", door: Door = OPEN) -> Iterator[str]:
    own = {"failing_calls": {}, "open_connections": set(), "token": token, "door": door}
    handler = type("OwnHandler", (Handler,), own)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        for connection in handler.open_connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join()


def remote(url: str, headers: dict[str, str] | None = None, **options: Any) -> tuple[ServerSpec, ...]:
    block = {"url": url, "headers": headers or {}, "turnwise": options}
    return parse({"remote": block}, {}, directory=Path.cwd())


async def do(pool: Pool, tool: str = "do", **arguments: Any) -> ToolResult:
    async with pool.lease(["remote"], f"{tool} {arguments}") as toolbox:
        [result] = await toolbox.call([ToolCall("1", tool, arguments)])
        return result


@pytest.mark.parametrize(
    ("what", "cause", "says"),
    [
        (401, Cause.CLOSED, "HTTP 401 Unauthorized"),
        (404, Cause.CLOSED, "HTTP 404 Not Found"),
        (500, Cause.CLOSED, "HTTP 500 Internal Server Error"),
        (502, Cause.CLOSED, "HTTP 502 Bad Gateway"),
        (206, Cause.CLOSED, "HTTP 206 Partial Content"),
        (418, Cause.CLOSED, "HTTP 418"),
        ("moved", Cause.CLOSED, "it redirects to elsewhere.example.com/mcp; put that URL into mcp.json"),
        ("moved nowhere", Cause.CLOSED, "it redirects to a place that is no URL"),
        ("br", Cause.BAD_REPLY, "content encoding is 'br'"),
        ("bad gzip", Cause.BAD_REPLY, "cannot be decompressed"),
        ("gzip stream", Cause.BAD_REPLY, "the stream is compressed"),
        ("drop", Cause.CLOSED, "connection failed"),
        ("drop_json", Cause.CLOSED, "connection failed"),
        ("drop_stream", Cause.CLOSED, "SSE stream ended"),
        ("junk", Cause.BAD_REPLY, "parse"),
        ("html", Cause.BAD_REPLY, "content type"),
    ],
)
async def test_an_http_fault_is_infrastructure_and_says_what_it_was(
    what: Any, cause: Cause, says: str
) -> None:
    with http_server() as url:
        async with nothing_leaks(), Pool(remote(url, num_retries=0)) as pool:
            failed = await do(pool, what=what)
            assert (failed.cause, failed.fault) == (cause, Fault.INFRA), failed
            assert says in failed.content
            assert (await do(pool)).content == "fine"


async def test_one_calls_fault_does_not_touch_the_others_in_flight() -> None:
    with http_server() as url:
        async with nothing_leaks(), Pool(remote(url, num_retries=0)) as pool:
            whats = ["sleep", "drop", "sleep", 500, "drop_json", "sleep", "drop_stream"]
            results = await asyncio.gather(*(do(pool, what=what, n=n) for n, what in enumerate(whats)))
            causes = [result.cause is Cause.OK for result in results]
            assert causes == [what == "sleep" for what in whats]


async def test_a_50_mb_reply_is_an_error_the_model_reads() -> None:
    with http_server() as url:
        async with nothing_leaks(), Pool(remote(url)) as pool:
            result = await do(pool, what="big")
            assert (result.cause, result.fault) == (Cause.TOO_LARGE, Fault.MODEL)
            assert (await do(pool)).content == "fine"


async def test_a_small_compressed_reply_is_read_and_a_bomb_is_thrown_away_as_it_unpacks() -> None:
    with http_server() as url:
        async with nothing_leaks(), Pool(remote(url)) as pool:
            assert (await do(pool, what="gzip")).content == "fine"
            result = await do(pool, what="bomb")
            assert (result.cause, result.fault) == (Cause.TOO_LARGE, Fault.MODEL)
            assert (await do(pool)).content == "fine"


async def test_a_large_error_page_is_the_servers_fault_not_the_models() -> None:
    with http_server() as url:
        async with nothing_leaks(), Pool(remote(url, num_retries=0, max_message_bytes=1000)) as pool:
            result = await do(pool, what=500, times=1000)
            assert (result.cause, result.fault) == (Cause.CLOSED, Fault.INFRA)


async def test_only_a_call_that_is_safe_to_repeat_is_retried_after_a_503() -> None:
    with http_server() as url:
        async with nothing_leaks(), Pool(remote(url)) as pool:
            read = await do(pool, "read", what="once", key="read")
            assert (read.cause, read.num_retries) == (Cause.OK, 1)
            wrote = await do(pool, "do", what="once", key="write")
            assert (wrote.cause, wrote.num_retries) == (Cause.CLOSED, 0)


@pytest.mark.parametrize(
    "door", [Door(seconds=1.0, says="1"), Door(status=503, seconds=1.0, says="1")], ids=["429", "503"]
)
async def test_a_server_that_asks_for_a_rest_is_left_alone_by_all_and_then_answers(door: Door) -> None:
    with http_server(door=door) as url:
        async with nothing_leaks(), Pool(remote(url, num_retries=0)) as pool:
            first = asyncio.create_task(do(pool, "read"))
            while not door.num_refused:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # until we have read the answer
            others = await asyncio.gather(*(do(pool, n=n) for n in range(10)))
            results = [await first, *others]
            assert [result.content for result in results] == ["fine"] * 11
            assert (door.num_refused, results[0].num_retries) == (1, 1)
            assert results[0].seconds >= 1.0


@pytest.mark.parametrize(("door", "num_retries"), [(Door(), 1), (Door(status=503), 0)], ids=["429", "503"])
async def test_what_was_turned_away_is_sent_again_even_if_it_writes_but_not_what_may_have_been_begun(
    door: Door, num_retries: int
) -> None:
    with http_server(door=door) as url:
        async with nothing_leaks(), Pool(remote(url)) as pool:
            wrote = await do(pool, "do")
            assert wrote.cause is (Cause.OK if num_retries else Cause.CLOSED)
            assert wrote.num_retries == num_retries
            assert (await do(pool, "do", n=1)).content == "fine", "it waits for the rest of the others"


async def test_a_rest_past_all_patience_is_a_fault_of_infrastructure_and_nothing_more_is_sent() -> None:
    door = Door(says="3600", is_ever_open=False)
    with http_server(door=door) as url:
        async with nothing_leaks(), Pool(remote(url, patience_seconds=0.2)) as pool:
            results = [await do(pool, "read", n=n) for n in range(3)]
            assert {result.fault for result in results} == {Fault.INFRA}
            assert "HTTP 429 Too Many Requests" in results[0].content
            assert [result.cause for result in results[1:]] == [Cause.BREAKER_OPEN] * 2
            assert "it asks for a rest of 3600 s, patience_seconds is 0.2" in results[1].content
            assert door.num_refused == 1


async def test_a_server_that_says_at_once_for_ever_is_not_hammered() -> None:
    door = Door(says="0", is_ever_open=False)
    with http_server(door=door) as url:
        async with nothing_leaks(), Pool(remote(url, patience_seconds=1.0)) as pool:
            result = await do(pool, "read")
            assert (result.cause, result.fault) == (Cause.CLOSED, Fault.INFRA)
            assert 2 <= door.num_refused <= 5


async def test_a_server_that_is_busy_after_a_time_out_is_not_taken_for_hung() -> None:
    door = Door("not yet", is_ever_open=False)
    with http_server(door=door) as url:
        async with nothing_leaks(), Pool(remote(url, timeout_seconds=0.3)) as pool:
            assert (await do(pool)).content == "fine"
            door.method = "tools/list"
            assert (await do(pool, what="sleep")).cause is Cause.TIMEOUT
            while not door.num_refused:
                await asyncio.sleep(0.01)
            assert (await do(pool, n=1)).content == "fine"
            assert door.num_greeted == 1, "the same session"


async def test_a_server_that_asks_for_a_rest_at_connect_is_given_it() -> None:
    door = Door("initialize")
    with http_server(door=door) as url:
        async with nothing_leaks(), Pool(remote(url)) as pool:
            assert (await do(pool)).content == "fine"
            assert door.num_refused == 1
        late = Door("initialize", says="3600", is_ever_open=False)
    with http_server(door=late) as url:
        async with nothing_leaks(), Pool(remote(url)) as pool:
            with pytest.raises(ConnectFailed, match="HTTP 429"):
                await do(pool)


async def test_a_refused_port_is_reported_at_connect() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"

    async with nothing_leaks(), Pool(remote(url)) as pool:
        with pytest.raises(ConnectFailed, match="cannot connect"):
            await do(pool)


async def test_a_call_to_a_server_that_went_away_never_reached_it_and_is_retried_when_it_is_back() -> None:
    async with nothing_leaks():
        with http_server() as url:
            pool = await Pool(remote(url, num_retries=1)).__aenter__()
            assert (await do(pool)).cause is Cause.OK
        gone = await do(pool, "do")
        assert (gone.cause, gone.num_retries) == (Cause.CLOSED, 1)  # unsafe, yet provably never sent
        assert "cannot connect" in gone.content
        await pool.__aexit__(None, None, None)


async def test_a_wrong_key_is_named_at_connect_and_never_shown() -> None:
    with http_server(token="right-token-123") as url:
        async with (
            nothing_leaks(),
            Pool(remote(url, {"Authorization": "Bearer wrong-token-456"})) as pool,
        ):
            with pytest.raises(ConnectFailed, match="HTTP 401") as caught:
                await do(pool)
            assert "wrong-token" not in str(caught.value)
        right = {"Authorization": "Bearer right-token-123"}
        async with nothing_leaks(), Pool(remote(url, right)) as pool:
            assert (await do(pool)).content == "fine"
