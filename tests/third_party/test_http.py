"""A third-party server over streamable HTTP, with its own session: calls, and its restart."""

import asyncio
import contextlib
import json
import socket
import subprocess
import time
from collections.abc import AsyncIterator

from tests.mcp.leaks import nothing_leaks
from tests.mcp.leases import ask, spec_of
from tests.third_party.installed import command
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import Isolation
from turnwise.types import Cause, Fault, ToolCall


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [*command("everything"), "streamableHttp"],
        env={"PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
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


async def test_calls_over_http_and_a_restart_that_the_lease_survives() -> None:
    """After its restart the server does not know our session: it answers 400 where the protocol has a 404."""
    port = free_port()
    block = {"url": f"http://127.0.0.1:{port}/mcp", "turnwise": {"timeout_seconds": 10}}
    sums = [ToolCall(str(number), "get-sum", {"a": number, "b": 1}) for number in range(20)]
    async with nothing_leaks(), Pool([spec_of("everything", block)]) as pool:
        async with contextlib.AsyncExitStack() as first:
            await first.enter_async_context(everything_at(port))
            async with pool.lease(["everything"], "episode") as toolbox:
                results = await toolbox.call(sums)
                contents = [f"The sum of {number} and 1 is {number + 1}." for number in range(20)]
                assert [result.content for result in results] == contents
                weather = await ask(toolbox, "get-structured-content", location="New York")
                assert "temperature" in json.loads(weather.content)
                assert "[image image/png, " in (await ask(toolbox, "get-tiny-image")).content
                assert pool.isolation("everything") is Isolation.SHARED
                await first.aclose()
                dead = await ask(toolbox, "echo", message="hi")
                assert (dead.cause, dead.fault) == (Cause.CLOSED, Fault.INFRA)
                async with everything_at(port):
                    assert (await ask(toolbox, "echo", message="hi")).content == "Echo: hi"
