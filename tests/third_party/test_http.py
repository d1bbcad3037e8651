"""A third-party server over streamable HTTP, with a session of its own: calls, and its restart."""

import asyncio
import contextlib
import json
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.third_party.installed import block
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import Isolation, ServerSpec, parse
from turnwise.types import Cause, Fault, ToolCall


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


def test_calls_over_http_give_what_they_give_over_stdio(port: int) -> None:
    sums = [f"The sum of {number} and 1 is {number + 1}." for number in range(20)]

    async def episode() -> None:
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

    asyncio.run(episode())


def test_a_server_that_was_restarted_serves_the_same_lease_again(port: int) -> None:
    """The new process does not know our session, and says so by a 400 where the protocol has a 404."""
    echo = ToolCall("1", "echo", {"message": "hi"})

    async def episode() -> None:
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

    asyncio.run(episode())
