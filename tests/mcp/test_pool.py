"""Leases over real server processes: isolation, order, concurrency, limits, warm stock, record and replay."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import descendants, nothing_leaks
from tests.mcp.notes import notes_spec
from turnwise.mcp.cassette import Cassette, Mode
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import Isolation, ServerSpec, parse
from turnwise.types import Cause, Fault, ToolCall, ToolResult

SERVERS = Path(__file__).parent / "servers"


def notebook(name: str = "notebook", **options: Any) -> dict[str, Any]:
    return {name: {"command": sys.executable, "args": [str(SERVERS / "notebook.py")], "turnwise": options}}


def specs(*blocks: dict[str, Any]) -> tuple[ServerSpec, ...]:
    return parse({name: block for part in blocks for name, block in part.items()}, {}, directory=Path.cwd())


def calls(*asked: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [ToolCall(str(number), name, arguments) for number, (name, arguments) in enumerate(asked)]


async def one(toolbox: Any, name: str, **arguments: Any) -> ToolResult:
    [result] = await toolbox.call(calls((name, arguments)))
    return result


async def test_our_own_stateful_server_is_keyed_without_being_told() -> None:
    async with nothing_leaks(), Pool(specs(notebook())) as pool:
        await pool.connect()
        assert pool.isolation("notebook") is Isolation.KEYED


@pytest.mark.parametrize("isolation", ["keyed", "process"])
async def test_episodes_at_the_same_time_never_see_each_others_state(isolation: str) -> None:
    async def episode(pool: Pool, name: str) -> list[str]:
        async with pool.lease(["notebook"], name) as toolbox:
            for number in range(3):
                await one(toolbox, "write", text=f"{name}{number}")
                await asyncio.sleep(0)
            return json.loads((await one(toolbox, "read")).content)

    async with nothing_leaks(), Pool(specs(notebook(isolation=isolation))) as pool:
        seen = await asyncio.gather(*(episode(pool, name) for name in "abcd"))
        assert seen == [[f"{name}{number}" for number in range(3)] for name in "abcd"]


async def test_state_is_dropped_with_the_lease() -> None:
    async with nothing_leaks(), Pool(specs(notebook())) as pool:
        async with pool.lease(["notebook"], "a") as toolbox:
            await one(toolbox, "write", text="x")
            [kept] = json.loads((await one(toolbox, "episodes")).content)
            assert kept.startswith("a/")
        async with pool.lease(["notebook"], "a") as toolbox:
            assert (await one(toolbox, "episodes")).content == "[]"


async def test_one_episode_id_cannot_be_leased_twice_at_once() -> None:
    async with Pool(specs(notebook())) as pool, pool.lease(["notebook"], "a"):
        with pytest.raises(ValueError, match="episode id 'a' already has a lease"):
            async with pool.lease(["notebook"], "a"):
                pass


async def test_reads_of_a_turn_run_together_and_writes_keep_their_place() -> None:
    async with nothing_leaks(), Pool(specs(notebook())) as pool, pool.lease(["notebook"], "a") as toolbox:
        results = await toolbox.call(
            calls(
                ("read", {"seconds": 0.2}),
                ("read", {"seconds": 0.1}),
                ("write", {"text": "one", "seconds": 0.1}),
                ("write", {"text": "two"}),
                ("read", {}),
            )
        )
        contents = [result.content for result in results]
        assert contents == ["[]", "[]", "written", "written", '["one","two"]']
        assert [result.call_id for result in results] == ["0", "1", "2", "3", "4"]
        log = json.loads((await one(toolbox, "log")).content)
        assert log[:2] == ["read starts", "read starts"]
        assert log[2:] == [
            *("read ends", "read ends", "write one starts", "write one ends"),
            *("write two starts", "write two ends", "read starts", "read ends"),
        ]


async def test_faults_are_told_apart() -> None:
    async with Pool(specs(notebook())) as pool, pool.lease(["notebook"], "a") as toolbox:
        model = await one(toolbox, "fail", how="model")
        provider = await one(toolbox, "fail", how="provider")
        bug = await one(toolbox, "fail", how="bug")
        unknown = await one(toolbox, "raed")
        assert (model.cause, model.fault) == (Cause.TOOL_ERROR, Fault.MODEL)
        assert (provider.cause, provider.fault) == (Cause.UPSTREAM, Fault.INFRA)
        assert (bug.cause, bug.fault) == (Cause.UPSTREAM, Fault.INFRA)
        assert (unknown.cause, unknown.fault) == (Cause.UNKNOWN_TOOL, Fault.MODEL)
        assert "did you mean 'read'?" in unknown.content


async def test_processes_are_spawned_ahead_of_demand_and_never_used_twice() -> None:
    async with nothing_leaks():
        before = descendants()
        async with Pool(specs(notebook(isolation="process", num_warm=3, max_processes=4))) as pool:
            await pool.connect()
            async with asyncio.timeout(30):
                while len(descendants() - before) < 3:  # no lease has asked for them yet
                    await asyncio.sleep(0.05)
            for name in ("a", "b"):
                async with pool.lease(["notebook"], name) as toolbox:
                    assert (await one(toolbox, "read")).content == "[]"
                    assert (await one(toolbox, "log")).content.count("read starts") == 1
            assert len(descendants() - before) <= 4 + 1  # one may still be on its way out


async def test_a_lease_past_the_most_processes_waits_for_one_to_be_given_back() -> None:
    before = descendants()
    seen: list[int] = []

    async def episode(pool: Pool, name: str) -> None:
        async with pool.lease(["notebook"], name) as toolbox:
            seen.append(len(descendants() - before))
            await one(toolbox, "write", text=name, seconds=0.2)
            seen.append(len(descendants() - before))

    options = {"isolation": "process", "num_warm": 0, "max_processes": 2}
    async with nothing_leaks(), Pool(specs(notebook(**options))) as pool:
        await asyncio.gather(*(episode(pool, str(number)) for number in range(5)))
    assert len(seen) == 10
    assert max(seen) == 2


async def test_two_servers_with_the_same_tools_get_qualified_names() -> None:
    both = specs(notebook("left"), notebook("right", deny=["log", "fail"]))
    async with Pool(both) as pool, pool.lease(["left", "right"], "a") as toolbox:
        names = [tool.name for tool in toolbox.tools]
        assert names == [
            *("left__write", "left__read", "left__episodes", "log", "fail"),
            *("right__write", "right__read", "right__episodes"),
        ]
        await one(toolbox, "left__write", text="only left")
        assert (await one(toolbox, "right__read")).content == "[]"
        assert (await one(toolbox, "left__read")).content == '["only left"]'
        async with pool.lease(["left"], "b", allow=["*read", "log"], deny=["log"]) as narrow:
            assert [tool.name for tool in narrow.tools] == ["left__read"]
            assert (await one(narrow, "left__write", text="x")).cause is Cause.UNKNOWN_TOOL


async def test_a_server_that_is_not_in_the_file_is_named() -> None:
    async with Pool(specs(notebook())) as pool:
        with pytest.raises(ValueError, match=r"unknown 'notebok'; mcp\.json has notebook"):
            async with pool.lease(["notebok"], "a"):
                pass


async def scene(pool: Pool, episode: str) -> list[ToolResult]:
    async with pool.lease(["notebook"], episode) as toolbox:
        first = await toolbox.call(calls(("read", {}), ("write", {"text": "x"}), ("read", {})))
        second = await toolbox.call(calls(("fail", {"how": "model"}), ("nope", {}), ("read", {})))
        return [*first, *second]


async def test_a_recorded_episode_replays_exactly_without_any_server(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    async with Pool(specs(notebook()), cassette=Cassette(path, Mode.RECORD)) as pool:
        recorded = await scene(pool, "a")
    before = descendants()
    async with Pool((), cassette=Cassette(path, Mode.REPLAY)) as pool:
        for episode in ("a", "another episode with the same steps"):
            replayed = await scene(pool, episode)
            assert [r.content for r in replayed] == [r.content for r in recorded]
            assert [r.cause for r in replayed] == [r.cause for r in recorded]
        async with pool.lease(["notebook"], "b") as toolbox:
            missed = await one(toolbox, "write", text="never recorded")
            assert (missed.cause, missed.fault) == (Cause.NOT_RECORDED, Fault.INFRA)
            assert 'notebook/write({"text":"never recorded"})' in missed.content
        assert descendants() == before


async def test_a_mended_call_is_recorded_under_the_tools_own_names_and_replays_from_either(
    tmp_path: Path,
) -> None:
    async def add(pool: Pool, name: str) -> ToolResult:
        async with pool, pool.lease(["notes"], "a") as toolbox:
            return await one(toolbox, "add_note", **{name: "x"})

    path = tmp_path / "calls.jsonl"
    mended = await add(Pool([notes_spec()], cassette=Cassette(path, Mode.RECORD)), "msg")
    assert (mended.cause, mended.repairs) == (Cause.OK, ("msg->text",))
    for name, repairs in (("msg", ("msg->text",)), ("text", ())):
        again = await add(Pool((), cassette=Cassette(path, Mode.REPLAY)), name)
        assert (again.content, again.repairs, again.is_replayed) == (mended.content, repairs, True)
    refused = await add(Pool([notes_spec()], is_mending=False), "msg")
    assert refused.cause is Cause.BAD_ARGUMENTS


async def test_replay_or_call_brings_a_live_server_up_to_the_replayed_state(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    async with Pool(specs(notebook()), cassette=Cassette(path, Mode.RECORD)) as pool:
        async with pool.lease(["notebook"], "a") as toolbox:
            await one(toolbox, "write", text="x")
    async with Pool(specs(notebook()), cassette=Cassette(path, Mode.REPLAY_OR_CALL)) as pool:
        async with pool.lease(["notebook"], "b") as toolbox:
            assert (await one(toolbox, "write", text="x")).is_replayed
            live = await one(toolbox, "read")
            assert (live.is_replayed, live.content) == (False, '["x"]')
