"""Every way a stdio server can fail ends in the right fault, leaks nothing, and the next lease is served."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.mcp.notes import notes_spec
from turnwise.mcp.cassette import Cassette, History, Mode, Recorded
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.types import Cause, Fault, ToolCall, ToolResult

FAULTY = str(Path(__file__).parent / "servers" / "faulty.py")
ISOLATIONS = ("shared", "process")


def faulty(*args: str, **options: Any) -> tuple[ServerSpec, ...]:
    block = {
        "command": sys.executable,
        "args": [FAULTY, *args],
        "turnwise": {"timeout_seconds": 10, **options},
    }
    return parse({"faulty": block}, {}, directory=Path.cwd())


def run_episode(
    specs: tuple[ServerSpec, ...], episode: Callable[[Pool], Awaitable[None]], *, then_serves: bool = True
) -> None:
    """Play `episode` in a pool of its own; afterwards the pool must serve a next lease and leak nothing."""

    async def main() -> None:
        async with nothing_leaks():
            async with Pool(specs) as pool:
                await episode(pool)
                if then_serves:
                    async with pool.lease(["faulty"], "next") as toolbox:
                        result = await do(toolbox, what="echo", text="served")
                        assert result.cause is Cause.OK, result
                        assert result.content.startswith("served#")

    asyncio.run(main())


async def do(toolbox: Any, tool: str = "do", **arguments: Any) -> ToolResult:
    [result] = await toolbox.call([ToolCall("1", tool, arguments)])
    return result


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_server_killed_before_a_call_is_replaced_unseen(isolation: str) -> None:
    async def episode(pool: Pool) -> None:
        await pool.connect()
        async with pool.lease(["faulty"], "a") as toolbox:
            os.kill(_pid(pool), signal.SIGKILL)
            await asyncio.sleep(0.2)
            result = await do(toolbox)
            assert result.cause is Cause.OK
            assert [loss.is_state_lost for loss in toolbox.losses] == [False]

    run_episode(faulty(isolation=isolation, num_warm=1), episode)


def test_a_process_killed_between_calls_takes_the_episode_with_it() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            first = await do(toolbox, "write")
            os.kill(int(first.content.rpartition(" ")[2]), signal.SIGKILL)
            await asyncio.sleep(0.2)
            for _ in range(2):
                result = await do(toolbox)
                assert (result.cause, result.fault) == (Cause.CLOSED, Fault.INFRA)
            [loss] = toolbox.losses
            assert loss.is_state_lost
            assert loss.server == "faulty"

    run_episode(faulty(isolation="process"), episode)


def test_a_server_that_dies_during_an_unsafe_call_is_not_called_again() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            result = await do(toolbox, "write", what="die")
            assert (result.cause, result.num_retries) == (Cause.CLOSED, 0)
            assert "dying words" in result.content
            assert [loss.exit_code for loss in toolbox.losses] == [9]
            assert (await do(toolbox, "write")).cause is Cause.OK

    run_episode(faulty(isolation="shared"), episode)


def test_a_read_only_call_is_retried_on_a_new_process(tmp_path: Path) -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            result = await do(toolbox, what="die_once", marker=str(tmp_path / "died"))
            assert (result.cause, result.num_retries) == (Cause.OK, 1)
            assert len(toolbox.losses) == 1

    run_episode(faulty(isolation="shared", data="real"), episode)  # its marker must outlive the process


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_server_that_answers_and_then_dies_gave_its_answer(isolation: str) -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            result = await do(toolbox, what="then_die")
            assert (result.cause, result.content) == (Cause.OK, "last words")

    run_episode(faulty(isolation=isolation), episode)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_hung_server_times_out_and_is_replaced(isolation: str) -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            result = await do(toolbox, what="hang")
            assert (result.cause, result.fault, result.num_retries) == (Cause.TIMEOUT, Fault.INFRA, 0)
        await asyncio.sleep(3.5)  # the check after a time-out gives up after 3 s

    run_episode(faulty(isolation=isolation, timeout_seconds=0.3), episode)


def test_a_slow_tool_on_a_healthy_server_times_out_and_keeps_its_server() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            pid = (await do(toolbox)).content.rpartition(" ")[2]
            result = await do(toolbox, what="sleep", seconds=0.6)
            assert (result.cause, result.fault) == (Cause.TIMEOUT, Fault.INFRA)
            await asyncio.sleep(0.6)
            assert (await do(toolbox)).content.rpartition(" ")[2] == pid
            assert not toolbox.losses

    run_episode(faulty(isolation="shared", timeout_seconds=0.3), episode)


@pytest.mark.parametrize(
    ("what", "max_bytes"),
    [("flood", 100_000), ("flood_lines", 100_000), ("flood_lines", 8_000_000), ("flood_blank", 100_000)],
)
def test_a_server_that_floods_its_stdout_is_ended(what: str, max_bytes: int) -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            result = await do(toolbox, "write", what=what)
            assert (result.cause, result.fault) == (Cause.CLOSED, Fault.INFRA)
            assert "flooded stdout" in result.content

    run_episode(faulty(isolation="process", max_message_bytes=max_bytes), episode)


def test_junk_on_stdout_is_skipped() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            assert (await do(toolbox, what="junk")).content == "after junk"
            assert (await do(toolbox, what="unasked")).content == "after the unasked"

    run_episode(faulty("junk_first", isolation="shared"), episode)


def test_a_50_mb_result_is_an_error_the_model_reads_and_the_server_stays() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            pid = (await do(toolbox)).content.rpartition(" ")[2]
            result = await do(toolbox, what="big", size=50_000_000)
            assert (result.cause, result.fault) == (Cause.TOO_LARGE, Fault.MODEL)
            assert "too large" in result.content
            assert (await do(toolbox)).content.rpartition(" ")[2] == pid

    run_episode(faulty(isolation="shared"), episode)


def test_a_large_result_within_bounds_is_cut_with_a_visible_mark() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            result = await do(toolbox, what="big", size=5_000_000)
            assert result.cause is Cause.OK
            assert len(result.content) < 10_000
            assert "characters cut" in result.content

    run_episode(faulty(isolation="shared"), episode)


@pytest.mark.parametrize(
    ("tool", "arguments", "cause"),
    [
        ("write", {"what": "broken_reply"}, Cause.BAD_REPLY),
        ("write", {"what": "wrong_shape"}, Cause.BAD_REPLY),
        ("write", {"what": "no_result"}, Cause.BAD_REPLY),
        ("bad_structure", {"what": "echo"}, Cause.BAD_REPLY),
        ("do", {"what": "error"}, Cause.TOOL_ERROR),
        ("do", {"what": "rpc_error", "code": -32602}, Cause.TOOL_ERROR),
        ("do", {"what": "rpc_error", "code": -32603}, Cause.TOOL_ERROR),
        # -32000 is also the SDK's code for a closed connection: from a live server it is the tool's error.
        ("do", {"what": "rpc_error", "code": -32000}, Cause.TOOL_ERROR),
        ("do", {"what": "rpc_error", "code": -32001}, Cause.TOOL_ERROR),
    ],
)
def test_what_a_server_answers_is_told_apart(tool: str, arguments: dict[str, Any], cause: Cause) -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            assert (await do(toolbox, tool, **arguments)).cause is cause

    run_episode(faulty(isolation="shared"), episode)


def test_a_server_that_dies_at_import_is_reported_at_once_with_its_last_words() -> None:
    async def episode(pool: Pool) -> None:
        started = time.monotonic()
        with pytest.raises(ConnectFailed) as caught:
            async with pool.lease(["faulty"], "a"):
                pass
        assert time.monotonic() - started < 60  # it is not the 60 s connect time-out that ends it
        assert caught.value.loss.exit_code == 1
        assert "about to fail" in caught.value.loss.stderr_tail
        assert "No module named 'does_not_exist'" in str(caught.value)

    run_episode(faulty("crash_at_import"), episode, then_serves=False)


def test_a_server_that_never_answers_is_given_up_after_the_connect_time() -> None:
    async def episode(pool: Pool) -> None:
        with pytest.raises(ConnectFailed, match=r"did not answer within 0\.5 s"):
            async with pool.lease(["faulty"], "a"):
                pass

    run_episode(faulty("silent", connect_seconds=0.5), episode, then_serves=False)


def test_a_command_that_does_not_exist_is_named() -> None:
    specs = parse({"faulty": {"command": "no-such-program"}}, {}, directory=Path.cwd())

    async def episode(pool: Pool) -> None:
        with pytest.raises(ConnectFailed, match="'no-such-program' is not on PATH"):
            async with pool.lease(["faulty"], "a"):
                pass

    run_episode(specs, episode, then_serves=False)


def test_a_first_start_that_fails_does_not_spoil_the_next(tmp_path: Path) -> None:
    async def episode(pool: Pool) -> None:
        with pytest.raises(ConnectFailed):
            async with pool.lease(["faulty"], "a"):
                pass

    run_episode(faulty("crash_once", str(tmp_path / "crashed"), isolation="shared", data="real"), episode)


def test_a_dead_server_is_noticed_though_a_grandchild_holds_its_stdout() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            result = await do(toolbox, "write", what="die")
            assert result.cause is Cause.CLOSED
            assert result.seconds < 5

    run_episode(faulty("orphan", isolation="process"), episode)


def test_the_breaker_opens_after_failures_in_a_row_and_closes_again() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            for _ in range(3):
                assert (await do(toolbox, what="broken_reply")).cause is Cause.BAD_REPLY
            refused = await do(toolbox)
            assert (refused.cause, refused.fault) == (Cause.BREAKER_OPEN, Fault.INFRA)
            await asyncio.sleep(0.35)
            assert (await do(toolbox)).cause is Cause.OK

    options = {"breaker_failures": 3, "breaker_seconds": 0.3, "num_retries": 0, "patience_seconds": 0}
    run_episode(faulty(isolation="shared", **options), episode)


async def test_a_broken_server_does_not_hold_up_episodes_that_do_not_call_it() -> None:
    options = {"breaker_failures": 1, "breaker_seconds": 600, "patience_seconds": 600, "num_retries": 0}
    async with Pool([*faulty(isolation="shared", **options), notes_spec()]) as pool:
        async with pool.lease(["faulty"], "breaks it") as toolbox:
            assert (await do(toolbox, what="broken_reply")).cause is Cause.BAD_REPLY
        assert pool.breakers["faulty"].is_open
        async with asyncio.timeout(60), pool.lease(["faulty", "notes"], "other") as toolbox:
            assert (await do(toolbox, "say", text="served")).content == "served"


def test_a_tools_own_errors_never_open_the_breaker() -> None:
    async def episode(pool: Pool) -> None:
        async with pool.lease(["faulty"], "a") as toolbox:
            for _ in range(8):
                assert (await do(toolbox, what="error")).cause is Cause.TOOL_ERROR

    run_episode(faulty(isolation="shared", breaker_failures=2), episode)


def test_a_cancelled_episode_cleans_up_after_itself() -> None:
    async def episode(pool: Pool) -> None:
        async def hang() -> None:
            async with pool.lease(["faulty"], "a") as toolbox:
                await do(toolbox, what="sleep", seconds=30)

        task = asyncio.create_task(hang())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_episode(faulty(isolation="process"), episode)


async def test_a_pool_that_is_closed_while_servers_start_leaves_nothing() -> None:
    async with nothing_leaks():
        async with Pool(faulty("silent", isolation="process", num_warm=4)) as pool:
            connecting = asyncio.create_task(pool.connect())
            await asyncio.sleep(0.3)
        assert "faulty" in await connecting


async def test_an_error_in_the_body_comes_out_as_it_is() -> None:
    async with nothing_leaks():
        with pytest.raises(KeyError):
            async with Pool(faulty(isolation="process")) as pool, pool.lease(["faulty"], "a"):
                raise KeyError("the caller's own")


async def test_a_child_gets_nothing_of_our_environment_but_path_and_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    block = {"command": sys.executable, "args": [FAULTY], "env": {"ITS_OWN": "given"}}

    async def main() -> str:
        specs = parse({"faulty": block}, {}, directory=Path.cwd())
        async with Pool(specs) as pool, pool.lease(["faulty"], "a") as toolbox:
            return (await do(toolbox, what="environment")).content

    environment = await main()
    assert set(json.loads(environment)) - {"LC_CTYPE"} == {"PATH", "HOME", "ITS_OWN"}


async def test_a_replayed_change_that_cannot_be_made_live_fails_what_follows_it(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    options = {"isolation": "shared", "num_retries": 0}
    async with Pool(faulty(**options), cassette=Cassette(path, Mode.RECORD)) as pool:
        await pool.connect()
    cassette = Cassette(path, Mode.REPLAY_OR_CALL)
    write = next(tool for tool in cassette.tools["faulty"] if tool.name == "write")
    key, index = History("a").place(write, {"what": "die"})
    cassette.record(key, index, Recorded("written", Cause.OK, 0.0))
    async with nothing_leaks(), Pool(faulty(**options), cassette=cassette) as pool:
        async with pool.lease(["faulty"], "a") as toolbox:
            assert (await do(toolbox, "write", what="die")).is_replayed
            for _ in range(2):  # the state it would read was never made, however often it asks
                read = await do(toolbox)
                assert (read.cause, read.fault) == (Cause.CLOSED, Fault.INFRA)
    cassette.close()


def _pid(pool: Pool) -> int:
    [session] = [session for supply in pool._supplies.values() for session in supply._live][:1]
    assert session.pid is not None
    return session.pid
