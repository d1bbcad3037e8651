"""Every way a stdio server can fail ends in the right fault, leaks nothing, and the next lease is served."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import descendants, nothing_leaks
from tests.mcp.leases import ask, leased, script_spec, spec_of
from turnwise.mcp import session
from turnwise.mcp.calls.cassette import Cassette, History, Mode, Recorded
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import ServerSpec
from turnwise.mcp.toolbox import LeasedToolbox
from turnwise.types import Cause, Fault, ToolResult

ISOLATIONS = pytest.mark.parametrize("isolation", ["shared", "process"])


def faulty(*args: str, **options: Any) -> ServerSpec:
    return script_spec("faulty", *args, **{"timeout_seconds": 10, **options})


@contextlib.asynccontextmanager
async def faulty_pool(*args: str, **options: Any) -> AsyncIterator[Pool]:
    """A pool with the faulty server. Afterwards it must serve a next lease and leak nothing."""
    async with nothing_leaks(), Pool([faulty(*args, **options)]) as pool:
        yield pool
        async with pool.lease(["faulty"], "next") as toolbox:
            assert (await do(toolbox, "echo", text="served")).content.startswith("served#")


@contextlib.asynccontextmanager
async def faulty_lease(*args: str, isolation: str = "shared", **options: Any) -> AsyncIterator[LeasedToolbox]:
    async with faulty_pool(*args, isolation=isolation, **options) as pool:
        async with pool.lease(["faulty"], "e") as toolbox:
            yield toolbox


async def do(toolbox: Any, what: str = "echo", *, tool: str = "do", **arguments: Any) -> ToolResult:
    """Have the server do `what`; the tool `do` is read-only, `write` is not."""
    return await ask(toolbox, tool, what=what, **arguments)


def pid_of(echo: ToolResult) -> int:
    """The server's number outside of its own namespace, from the one that it told us."""
    [pid] = (pid for pid in descendants() if inner_pid(pid) == echo.content.rpartition(" ")[2])
    return pid


def inner_pid(pid: int) -> str:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    return status.partition("NSpid:")[2].split("\n")[0].split()[-1]


async def process_end(pid: int) -> None:
    async with asyncio.timeout(20):
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.02)


@ISOLATIONS
async def test_a_server_killed_before_a_call_is_replaced_unnoticed(isolation: str) -> None:
    async with faulty_pool(isolation=isolation, num_warm=1) as pool:
        await pool.connect()
        async with pool.lease(["faulty"], "e") as toolbox:
            first = next(session for supply in pool._supplies.values() for session in supply._live)
            assert first.pid is not None
            os.killpg(first.pid, signal.SIGKILL)
            await asyncio.sleep(0.2)
            assert (await do(toolbox)).cause is Cause.OK
            assert [loss.is_state_lost for loss in toolbox.losses] == [False]


async def test_a_process_killed_between_calls_ends_its_episode() -> None:
    async with faulty_lease(isolation="process") as toolbox:
        os.kill(pid_of(await do(toolbox, tool="write")), signal.SIGKILL)
        await asyncio.sleep(0.2)
        for _ in range(2):
            result = await do(toolbox)
            assert (result.cause, result.fault) == (Cause.CLOSED, Fault.INFRA)
        [loss] = toolbox.losses
        assert (loss.server, loss.is_state_lost) == ("faulty", True)


async def test_an_unsafe_call_is_not_repeated_when_its_server_dies() -> None:
    async with faulty_lease() as toolbox:
        result = await do(toolbox, "die", tool="write")
        assert (result.cause, result.num_retries) == (Cause.CLOSED, 0)
        assert "dying words" in result.content
        assert [loss.exit_code for loss in toolbox.losses] == [9]
        assert (await do(toolbox, tool="write")).cause is Cause.OK


async def test_a_read_only_call_is_retried_on_a_new_process(tmp_path: Path) -> None:
    async with faulty_lease(data="real") as toolbox:  # the marker must outlive the process
        result = await do(toolbox, "die_once", marker=str(tmp_path / "died"))
        assert (result.cause, result.num_retries) == (Cause.OK, 1)
        assert len(toolbox.losses) == 1


@ISOLATIONS
async def test_the_last_answer_of_a_server_that_dies_after_it_counts(isolation: str) -> None:
    async with faulty_lease(isolation=isolation) as toolbox:
        result = await do(toolbox, "then_die")
        assert (result.cause, result.content) == (Cause.OK, "last words")


@ISOLATIONS
async def test_a_hung_server_is_replaced(isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_CHECK_SECONDS", 0.3)
    async with faulty_pool(isolation=isolation, timeout_seconds=1.0) as pool:
        async with pool.lease(["faulty"], "e") as toolbox:
            pid = pid_of(await do(toolbox))
            result = await do(toolbox, "hang")
            assert (result.cause, result.fault, result.num_retries) == (Cause.TIMEOUT, Fault.INFRA, 0)
        await process_end(pid)


async def test_a_slow_tool_on_a_healthy_server_times_out_and_keeps_its_server() -> None:
    async with faulty_lease(timeout_seconds=1.0) as toolbox:
        pid = pid_of(await do(toolbox))
        result = await do(toolbox, "sleep", seconds=1.3)
        assert (result.cause, result.fault) == (Cause.TIMEOUT, Fault.INFRA)
        await asyncio.sleep(0.5)
        assert pid_of(await do(toolbox)) == pid
        assert not toolbox.losses


@pytest.mark.parametrize(
    ("what", "max_bytes"), [("flood", 100_000), ("flood_lines", 8_000_000), ("flood_blank", 100_000)]
)
async def test_a_server_that_floods_its_stdout_is_ended(what: str, max_bytes: int) -> None:
    async with faulty_lease(isolation="process", max_message_bytes=max_bytes) as toolbox:
        result = await do(toolbox, what, tool="write")
        assert (result.cause, result.fault) == (Cause.CLOSED, Fault.INFRA)
        assert "flooded stdout" in result.content


async def test_junk_on_stdout_is_skipped() -> None:
    async with faulty_lease("junk_first") as toolbox:
        assert (await do(toolbox, "junk")).content == "after junk"
        assert (await do(toolbox, "unasked")).content == "after the unasked"


async def test_a_large_result_is_cut_and_one_over_the_message_limit_is_an_error_the_model_reads() -> None:
    async with faulty_lease(max_message_bytes=1_000_000) as toolbox:
        pid = pid_of(await do(toolbox))
        within = await do(toolbox, "big", size=900_000)
        assert within.cause is Cause.OK
        assert len(within.content) < 10_000
        assert "characters cut" in within.content
        over = await do(toolbox, "big", size=5_000_000)
        assert (over.cause, over.fault) == (Cause.TOO_LARGE, Fault.MODEL)
        assert "too large" in over.content
        assert pid_of(await do(toolbox)) == pid, "the server was replaced"


async def test_errors_of_the_tool_are_the_models_and_unreadable_replies_are_infrastructure() -> None:
    model = (Cause.TOOL_ERROR, Fault.MODEL)
    infrastructure = (Cause.BAD_REPLY, Fault.INFRA)
    async with faulty_lease(breaker_failures=1_000, num_retries=0) as toolbox:
        for tool, what, expected in (
            ("write", {"what": "broken_reply"}, infrastructure),
            ("write", {"what": "wrong_shape"}, infrastructure),
            ("write", {"what": "no_result"}, infrastructure),
            ("bad_structure", {"what": "echo"}, infrastructure),
            ("write", {"what": "error"}, model),
            ("do", {"what": "rpc_error", "code": -32602}, model),
            ("do", {"what": "rpc_error", "code": -32603}, model),
            # -32000 is also the SDK's code for a closed connection: a live server means the tool's error.
            ("do", {"what": "rpc_error", "code": -32000}, model),
            ("do", {"what": "rpc_error", "code": -32001}, model),
        ):
            result = await ask(toolbox, tool, **what)
            assert (result.cause, result.fault) == expected, (what, result)


ODD_VALUES = {
    "half an emoji": ({"value": b"\\ud83d!".hex(), "is_text": True}, "\ufffd!"),
    "bytes that are not UTF-8": ({"value": b"\xff\xfe!".hex(), "is_text": True}, "\ufffd\ufffd!"),
    "400 levels": ({"value": b"[".hex(), "rest": b"]".hex(), "times": 400}, "[[[["),
    "100,000 levels": ({"value": b"[".hex(), "rest": b"]".hex(), "times": 100_000}, "[[[["),
    "6,000 digits": ({"value": b"7".hex(), "times": 6_000}, "7777"),
}


@pytest.mark.parametrize("what", ODD_VALUES)
async def test_values_that_strict_parsers_refuse_are_results_and_no_faults(what: str) -> None:
    arguments, shown = ODD_VALUES[what]
    async with faulty_lease() as toolbox:
        result = await do(toolbox, "raw", **arguments)
        assert (result.cause, shown in result.content) == (Cause.OK, True), result.content[:200]


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (faulty("crash_at_import"), r"(?s)about to fail.*No module named 'does_not_exist'"),
        (faulty("silent", connect_seconds=0.5), r"did not answer within 0\.5 s"),
        (spec_of("faulty", {"command": "no-such-program"}), "'no-such-program' is not on PATH"),
    ],
    ids=["crash at import", "silence", "no such program"],
)
async def test_a_server_that_does_not_start_is_reported(server: ServerSpec, message: str) -> None:
    async with nothing_leaks(), Pool([server]) as pool:
        with pytest.raises(ConnectFailed, match=message) as caught:
            async with asyncio.timeout(30), pool.lease(["faulty"], "e"):
                pass
        assert caught.value.loss.server == "faulty"


async def test_a_first_start_that_fails_does_not_affect_the_next(tmp_path: Path) -> None:
    async with faulty_pool("crash_once", str(tmp_path / "crashed"), isolation="shared", data="real") as pool:
        with pytest.raises(ConnectFailed) as caught:
            async with pool.lease(["faulty"], "e"):
                pass
        assert caught.value.loss.exit_code == 7


async def test_a_dead_server_is_noticed_though_a_grandchild_keeps_its_stdout_open() -> None:
    async with faulty_lease("orphan", isolation="process") as toolbox:
        result = await do(toolbox, "die", tool="write")
        assert result.cause is Cause.CLOSED
        assert result.seconds < 5, "only the time-out of the call noticed it"


async def test_the_breaker_opens_after_failures_in_a_row_and_closes_after_a_good_trial() -> None:
    options = {"breaker_failures": 3, "breaker_seconds": 0.3, "num_retries": 0, "patience_seconds": 0}
    async with faulty_pool(isolation="shared", **options) as pool:
        breaker = pool.breakers["faulty"]
        async with pool.lease(["faulty"], "e") as toolbox:
            for _ in range(5):
                assert (await do(toolbox, "error")).cause is Cause.TOOL_ERROR, "not a failure of the server"
            for _ in range(3):
                assert not breaker.is_open
                assert (await do(toolbox, "broken_reply")).cause is Cause.BAD_REPLY
            refused = await do(toolbox)
            assert (refused.cause, refused.fault) == (Cause.BREAKER_OPEN, Fault.INFRA)
            await asyncio.sleep(0.35)
            assert (await do(toolbox, "broken_reply")).cause is Cause.BAD_REPLY
            assert breaker.num_openings == 2, "the failed trial opened it once more"
            await asyncio.sleep(0.65)
            assert (await do(toolbox)).cause is Cause.OK
            assert not breaker.is_open


async def test_a_broken_server_does_not_delay_episodes_that_do_not_call_it() -> None:
    options = {"breaker_failures": 1, "breaker_seconds": 600, "patience_seconds": 600, "num_retries": 0}
    async with Pool([faulty(isolation="shared", **options), script_spec("notebook")]) as pool:
        async with pool.lease(["faulty"], "breaks it") as toolbox:
            assert (await do(toolbox, "broken_reply")).cause is Cause.BAD_REPLY
        assert pool.breakers["faulty"].is_open
        async with asyncio.timeout(60), pool.lease(["faulty", "notebook"], "other") as toolbox:
            assert (await ask(toolbox, "read")).content == "[]"


async def test_a_cancelled_episode_cleans_up_after_itself() -> None:
    async with faulty_pool(isolation="process") as pool:
        has_lease = asyncio.Event()

        async def hang() -> None:
            async with pool.lease(["faulty"], "e") as toolbox:
                has_lease.set()
                await do(toolbox, "sleep", seconds=30)

        task = asyncio.create_task(hang())
        await has_lease.wait()
        await asyncio.sleep(0.1)  # by now the call is in flight
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_pool_that_is_closed_while_servers_start_leaves_nothing() -> None:
    async with nothing_leaks():
        async with Pool([faulty("silent", isolation="process", num_warm=4)]) as pool:
            connecting = asyncio.create_task(pool.connect())
            await asyncio.sleep(0.3)
        assert "faulty" in await connecting


async def test_an_exception_of_the_caller_is_not_wrapped() -> None:
    async with nothing_leaks():
        with pytest.raises(KeyError):
            async with leased(faulty(isolation="process")):
                raise KeyError("the caller's own")


async def test_a_server_process_inherits_only_path_home_and_certificates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    certificates = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
    for name in certificates:
        monkeypatch.setenv(name, "/etc/ssl/certs")
    async with leased(script_spec("faulty", env={"ITS_OWN": "given"})) as toolbox:
        environment = json.loads((await do(toolbox, "environment")).content)
    assert set(environment) - {"LC_CTYPE"} == {"PATH", "HOME", "ITS_OWN", *certificates}


async def test_a_replayed_change_that_fails_live_fails_the_calls_after_it(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    server = faulty(isolation="shared", num_retries=0)
    async with Pool([server], cassette=Cassette(path, Mode.RECORD)) as pool:
        await pool.connect()
    cassette = Cassette(path, Mode.REPLAY_OR_CALL)
    write = next(tool for tool in cassette.tools["faulty"] if tool.name == "write")
    key, index = History("e").place(write, {"what": "die"})
    cassette.record(key, index, Recorded("written", Cause.OK, 0.0))
    async with nothing_leaks(), leased(server, cassette=cassette) as toolbox:
        assert (await do(toolbox, "die", tool="write")).is_replayed
        for _ in range(2):  # the state to read was never reached, however often it is asked for
            read = await do(toolbox)
            assert (read.cause, read.fault) == (Cause.CLOSED, Fault.INFRA)
    cassette.close()
