"""Every way an HTTP server can fail ends in the right fault, for that call alone, and leaks nothing."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.mcp.faulty_http import OPEN, Door, http_server, remote
from tests.mcp.leaks import nothing_leaks
from tests.mcp.leases import ask
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.types import Cause, Fault, ToolResult


@contextlib.asynccontextmanager
async def pool_on(door: Door = OPEN, **options: Any) -> AsyncIterator[Pool]:
    """A pool on an HTTP server behind this door; it must leak nothing."""
    with http_server(door=door) as url:
        async with nothing_leaks(), Pool([remote(url, **options)]) as pool:
            yield pool


async def do(pool: Pool, tool: str = "do", **arguments: Any) -> ToolResult:
    async with pool.lease(["remote"], f"{tool} {arguments}") as toolbox:
        return await ask(toolbox, tool, **arguments)


async def test_an_http_fault_is_infrastructure_and_its_message_says_what_it_was() -> None:
    async with pool_on(num_retries=0, breaker_failures=1_000) as pool:
        for what, cause, message in (
            (401, Cause.CLOSED, "HTTP 401 Unauthorized"),
            (404, Cause.CLOSED, "HTTP 404 Not Found"),
            (500, Cause.CLOSED, "HTTP 500 Internal Server Error"),
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
        ):
            failed = await do(pool, what=what)
            assert (failed.cause, failed.fault) == (cause, Fault.INFRA), failed
            assert message in failed.content
            assert (await do(pool)).content == "fine", f"not served after {what}"


@pytest.mark.parametrize("what", ["odd", "odd stream"])
async def test_text_that_strict_parsers_refuse_is_a_result_and_no_fault(what: str) -> None:
    async with pool_on(timeout_seconds=5) as pool:
        result = await do(pool, what=what)
        assert (result.cause, result.content) == (Cause.OK, "\ufffd\ufffd")


async def test_of_errors_with_a_json_rpc_body_only_a_400_is_the_fault_of_the_model() -> None:
    """Servers put a JSON-RPC error into every refusal, also where the call was right."""
    async with pool_on(num_retries=0, breaker_failures=1_000, patience_seconds=0) as pool:
        for status in (400, 401, 403, 500, 503, 429):
            refused = await do(pool, what="rpc", times=status)
            assert refused.cause is (Cause.TOOL_ERROR if status == 400 else Cause.CLOSED)
            assert str(status) in refused.content


async def test_the_fault_of_one_call_does_not_affect_the_others_in_flight() -> None:
    async with pool_on(num_retries=0) as pool:
        whats = ["sleep", "drop", "sleep", 500, "drop_json", "sleep", "drop_stream"]
        results = await asyncio.gather(*(do(pool, what=what, n=n) for n, what in enumerate(whats)))
        assert [result.cause is Cause.OK for result in results] == [what == "sleep" for what in whats]


async def test_a_reply_over_the_message_limit_is_an_error_the_model_reads() -> None:
    async with pool_on(num_retries=0, max_message_bytes=100_000) as pool:
        for what in ("echo", "gzip"):  # the second is small until it is unpacked
            assert (await do(pool, what=what)).content == "fine"
            large = await do(pool, what=what, times=1_000_000)
            assert (large.cause, large.fault) == (Cause.TOO_LARGE, Fault.MODEL)
        page = await do(pool, what=500, times=100_000)
        assert (page.cause, page.fault) == (Cause.CLOSED, Fault.INFRA), "a large error page is the server's"
        assert (await do(pool)).content == "fine"


async def test_only_a_call_that_is_safe_to_repeat_is_retried_after_a_503() -> None:
    async with pool_on() as pool:
        read = await do(pool, "read", what="once", key="read")
        assert (read.cause, read.num_retries) == (Cause.OK, 1)
        wrote = await do(pool, "do", what="once", key="write")
        assert (wrote.cause, wrote.num_retries) == (Cause.CLOSED, 0)


@pytest.mark.parametrize("status", [429, 503])
async def test_no_call_is_sent_while_a_server_asks_for_a_rest(status: int) -> None:
    door = Door(status=status, seconds=1.0, retry_after="1")
    async with pool_on(door, num_retries=0) as pool:
        first = asyncio.create_task(do(pool, "read"))
        while not door.num_refused:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # until the client has read the answer
        others = await asyncio.gather(*(do(pool, n=n) for n in range(10)))
        results = [await first, *others]
        assert [result.content for result in results] == ["fine"] * 11
        assert (door.num_refused, results[0].num_retries) == (1, 1)
        assert results[0].seconds >= 1.0


@pytest.mark.parametrize(("status", "num_retries"), [(429, 1), (503, 0)])
async def test_a_write_is_sent_again_after_a_429_but_not_after_a_503(status: int, num_retries: int) -> None:
    """A 503 may come after the write has begun."""
    async with pool_on(Door(status=status)) as pool:
        wrote = await do(pool, "do")
        assert wrote.cause is (Cause.OK if num_retries else Cause.CLOSED)
        assert wrote.num_retries == num_retries
        assert (await do(pool, "do", n=1)).content == "fine", "this call waits until the rest is over"


async def test_a_rest_beyond_the_patience_is_infrastructure_and_nothing_more_is_sent() -> None:
    door = Door(retry_after="3600", is_ever_open=False)
    async with pool_on(door, patience_seconds=0.2) as pool:
        results = [await do(pool, "read", n=n) for n in range(3)]
        assert {result.fault for result in results} == {Fault.INFRA}
        assert "HTTP 429 Too Many Requests" in results[0].content
        assert [result.cause for result in results[1:]] == [Cause.BREAKER_OPEN] * 2
        assert "it asks for a rest of 3600 s, patience_seconds is 0.2" in results[1].content
        assert door.num_refused == 1


async def test_a_server_that_always_asks_for_no_rest_at_all_is_not_flooded_with_retries() -> None:
    door = Door(retry_after="0", is_ever_open=False)
    async with pool_on(door, patience_seconds=1.0) as pool:
        result = await do(pool, "read")
        assert (result.cause, result.fault) == (Cause.CLOSED, Fault.INFRA)
        assert 2 <= door.num_refused <= 5


async def test_a_server_that_is_busy_after_a_time_out_is_not_taken_for_hung() -> None:
    door = Door("not yet", is_ever_open=False)
    async with pool_on(door, timeout_seconds=0.3) as pool:
        assert (await do(pool)).content == "fine"
        door.method = "tools/list"
        assert (await do(pool, what="sleep")).cause is Cause.TIMEOUT
        while not door.num_refused:
            await asyncio.sleep(0.01)
        assert (await do(pool, n=1)).content == "fine"
        assert door.num_greeted == 1, "a second session was opened"


async def test_a_rest_is_kept_at_connect_too() -> None:
    door = Door("initialize")
    async with pool_on(door) as pool:
        assert (await do(pool)).content == "fine"
        assert door.num_refused == 1
    async with pool_on(Door("initialize", retry_after="3600", is_ever_open=False)) as pool:
        with pytest.raises(ConnectFailed, match="HTTP 429"):
            await do(pool)


async def test_a_refused_port_is_reported_at_connect() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/mcp"
    async with nothing_leaks(), Pool([remote(url)]) as pool:
        with pytest.raises(ConnectFailed, match="cannot connect"):
            await do(pool)


async def test_a_write_that_never_reached_its_server_is_retried() -> None:
    async with nothing_leaks():
        with http_server() as url:
            pool = await Pool([remote(url, num_retries=1)]).__aenter__()
            assert (await do(pool)).cause is Cause.OK
        gone = await do(pool, "do")
        assert (gone.cause, gone.num_retries) == (Cause.CLOSED, 1)
        assert "cannot connect" in gone.content
        await pool.__aexit__(None, None, None)


async def test_a_wrong_token_is_reported_at_connect_and_never_shown() -> None:
    with http_server(token="right-token-123") as url:
        wrong = remote(url, headers={"Authorization": "Bearer wrong-token-456"})
        async with nothing_leaks(), Pool([wrong]) as pool:
            with pytest.raises(ConnectFailed, match="HTTP 401") as caught:
                await do(pool)
            assert "wrong-token" not in str(caught.value)
        right = remote(url, headers={"Authorization": "Bearer right-token-123"})
        async with nothing_leaks(), Pool([right]) as pool:
            assert (await do(pool)).content == "fine"
