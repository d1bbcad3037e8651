"""A third-party server over streamable HTTP, with a session of its own: calls, and its restart."""

import asyncio
import contextlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.third_party.installed import LEGACY_VERSION, block
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import Isolation, ServerSpec, parse
from turnwise.types import Cause, Fault, ToolCall, ToolResult


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(port: int) -> subprocess.Popen[bytes]:
    """The everything server, listening on this port."""
    stdio = block("everything")
    process = subprocess.Popen(
        [stdio["command"], *stdio["args"][:-1], "streamableHttp"],
        env={"PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 15
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return process
        time.sleep(0.05)
    stop(process)
    raise AssertionError("the everything server does not listen")


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextlib.asynccontextmanager
async def everything_at(port: int) -> AsyncIterator[None]:
    process = await asyncio.to_thread(start, port)
    try:
        yield
    finally:
        await asyncio.to_thread(stop, process)


@pytest.fixture
def port() -> int:
    return free_port()


def remote(port: int) -> ServerSpec:
    described = {"url": f"http://127.0.0.1:{port}/mcp", "turnwise": {"timeout_seconds": 10}}
    [server] = parse({"everything": described}, {}, directory=Path.cwd())
    return server


async def test_calls_over_http_give_what_they_give_over_stdio(port: int) -> None:
    sums = [f"The sum of {number} and 1 is {number + 1}." for number in range(20)]

    calls = [ToolCall(str(number), "get-sum", {"a": number, "b": 1}) for number in range(20)]
    weather = ToolCall("weather", "get-structured-content", {"location": "New York"})
    image = ToolCall("image", "get-tiny-image", {})
    async with everything_at(port), nothing_leaks(), Pool([remote(port)]) as pool:
        async with pool.lease(["everything"], "episode") as toolbox:
            results = await toolbox.call([*calls, weather, image])
        assert pool.isolation("everything") is Isolation.SHARED
    assert [result.content for result in results[:20]] == sums
    assert "temperature" in json.loads(results[20].content)
    assert "[image image/png, " in results[21].content


async def test_a_server_that_was_restarted_serves_the_same_lease_again(port: int) -> None:
    """The new process does not know our session, and says so by a 400 where the protocol has a 404."""
    echo = ToolCall("1", "echo", {"message": "hi"})

    async with Pool([remote(port)]) as pool, contextlib.AsyncExitStack() as first:
        await first.enter_async_context(everything_at(port))
        async with pool.lease(["everything"], "episode") as toolbox:
            [alive] = await toolbox.call([echo])
            assert alive.content == "Echo: hi"
            await first.aclose()
            [dead] = await toolbox.call([echo])
            assert (dead.cause, dead.fault) == (Cause.CLOSED, Fault.INFRA)
            async with everything_at(port):
                [again] = await toolbox.call([echo])
                assert again.content == "Echo: hi", again


class Refusing(BaseHTTPRequestHandler):
    """A server that lists one tool and answers every call with an HTTP error that has a JSON-RPC body."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": LEGACY_VERSION,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "refusing", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "refuse", "inputSchema": {"type": "object"}}]},
        }
        status, reply = 404, {"error": {"code": -32601, "message": "Method not found"}}
        if body["method"] in results:
            status, reply = 200, {"result": results[body["method"]]}
        elif body["method"] == "tools/call":
            status = body["params"]["arguments"]["status"]
            reply = {"error": {"code": -32603, "message": f"refused with {status}"}}
        elif "id" not in body:
            status = 202
        data = json.dumps({"jsonrpc": "2.0", "id": body.get("id"), **reply}).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (400, Cause.TOOL_ERROR),
        (401, Cause.CLOSED),
        (403, Cause.CLOSED),
        (429, Cause.CLOSED),
        (500, Cause.CLOSED),
        (503, Cause.CLOSED),
    ],
)
async def test_whose_fault_an_http_error_is_follows_its_status_not_its_body(
    status: int, cause: Cause
) -> None:
    """Servers put a JSON-RPC error into every refusal; only a 400 is about what the model asked for."""

    async def ask(port: int) -> ToolResult:
        async with Pool([remote(port)]) as pool, pool.lease(["everything"], "episode") as toolbox:
            [result] = await toolbox.call([ToolCall("1", "refuse", {"status": status})])
            return result

    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            result = await ask(server.server_port)
        finally:
            server.shutdown()
            thread.join()
    assert result.cause is cause
    assert str(status) in result.content
