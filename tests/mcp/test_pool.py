"""Leases over real server processes: isolation, order, concurrency, limits, warm stock, record and replay."""

import asyncio
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.leaks import descendants, nothing_leaks
from tests.mcp.leases import ask, leased, script_spec, spec_of
from turnwise.mcp.calls.cassette import Cassette, Mode
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import Isolation, ServerSpec
from turnwise.types import Cause, Fault, ToolCall, ToolResult


def notebook(name: str = "notebook", **options: Any) -> ServerSpec:
    spec = script_spec("notebook")
    return spec_of(name, {"command": spec.command, "args": list(spec.args), "turnwise": options})


def calls(*asked: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    return [ToolCall(str(number), name, arguments) for number, (name, arguments) in enumerate(asked)]


@pytest.mark.parametrize("isolation", ["keyed", "process"])
async def test_concurrent_episodes_never_see_the_state_of_each_other(isolation: str) -> None:
    async def episode(pool: Pool, name: str) -> list[str]:
        async with pool.lease(["notebook"], name) as toolbox:
            for number in range(3):
                await ask(toolbox, "write", text=f"{name}{number}")
                await asyncio.sleep(0)
            return json.loads((await ask(toolbox, "read")).content)

    async with nothing_leaks(), Pool([notebook(isolation=isolation)]) as pool:
        seen = await asyncio.gather(*(episode(pool, name) for name in "abc"))
        assert seen == [[f"{name}{number}" for number in range(3)] for name in "abc"]


async def test_a_server_that_supports_episodes_is_shared_and_their_state_ends_with_the_lease() -> None:
    async with nothing_leaks(), Pool([notebook()]) as pool:
        async with pool.lease(["notebook"], "a") as toolbox:
            assert pool.isolation("notebook") is Isolation.KEYED
            await ask(toolbox, "write", text="x")
            [kept] = json.loads((await ask(toolbox, "episodes")).content)
            assert kept.startswith("a/")
            with pytest.raises(ValueError, match="episode id 'a' already has a lease"):
                async with pool.lease(["notebook"], "a"):
                    pass
        async with pool.lease(["notebook"], "a") as toolbox:
            assert (await ask(toolbox, "episodes")).content == "[]"
        with pytest.raises(ValueError, match=r"unknown 'notebok'; mcp\.json has notebook"):
            async with pool.lease(["notebok"], "b"):
                pass


async def test_reads_of_a_turn_run_concurrently_and_writes_keep_their_order() -> None:
    async with nothing_leaks(), leased(notebook()) as toolbox:
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
        assert json.loads((await ask(toolbox, "log")).content) == [
            *("read starts", "read starts", "read ends", "read ends"),
            *("write one starts", "write one ends", "write two starts", "write two ends"),
            *("read starts", "read ends"),
        ]


async def test_errors_of_the_model_differ_from_errors_of_the_infrastructure() -> None:
    async with leased(notebook()) as toolbox:
        for how, expected in (
            ("model", (Cause.TOOL_ERROR, Fault.MODEL)),
            ("provider", (Cause.UPSTREAM, Fault.INFRA)),
            ("bug", (Cause.UPSTREAM, Fault.INFRA)),
        ):
            failed = await ask(toolbox, "fail", how=how)
            assert (failed.cause, failed.fault) == expected
        unknown = await ask(toolbox, "raed")
        assert (unknown.cause, unknown.fault) == (Cause.UNKNOWN_TOOL, Fault.MODEL)
        assert "did you mean 'read'?" in unknown.content


def servers(before: set[int]) -> list[int]:
    """The processes that are a server: others hold its walls."""
    found = []
    for pid in descendants() - before:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_text().startswith(f"{sys.executable}\0"):
                found.append(pid)
    return found


async def test_processes_are_started_ahead_of_demand_and_never_used_twice() -> None:
    async with nothing_leaks():
        before = descendants()
        async with Pool([notebook(isolation="process", num_warm=3, max_processes=4)]) as pool:
            await pool.connect()
            async with asyncio.timeout(30):
                while len(servers(before)) < 3:  # no lease has asked for them yet
                    await asyncio.sleep(0.05)
            for name in ("a", "b"):
                async with pool.lease(["notebook"], name) as toolbox:
                    assert (await ask(toolbox, "read")).content == "[]"
                    assert (await ask(toolbox, "log")).content.count("read starts") == 1
            assert len(servers(before)) <= 4 + 1  # one may still be exiting


async def test_a_lease_over_the_limit_of_processes_waits_until_one_is_returned() -> None:
    num_leased, seen = 0, []
    pair = asyncio.Barrier(2)

    async def episode(pool: Pool, name: str) -> None:
        nonlocal num_leased
        async with pool.lease(["notebook"], name) as toolbox:
            num_leased += 1
            seen.append(num_leased)
            assert (await ask(toolbox, "write", text=name)).cause is Cause.OK
            await pair.wait()
            num_leased -= 1

    async with nothing_leaks(), Pool([notebook(isolation="process", num_warm=0, max_processes=2)]) as pool:
        await asyncio.gather(*(episode(pool, str(number)) for number in range(4)))
    assert (len(seen), max(seen)) == (4, 2)


async def test_tools_with_the_same_name_on_two_servers_get_qualified_names() -> None:
    both = [notebook("left"), notebook("right", deny=["log", "fail"])]
    async with Pool(both) as pool, pool.lease(["left", "right"], "a") as toolbox:
        assert [tool.name for tool in toolbox.tools] == [
            *("left__write", "left__read", "left__episodes", "log", "fail"),
            *("right__write", "right__read", "right__episodes"),
        ]
        await ask(toolbox, "left__write", text="only left")
        assert (await ask(toolbox, "right__read")).content == "[]"
        assert (await ask(toolbox, "left__read")).content == '["only left"]'
        async with pool.lease(["left"], "b", allow=["*read", "log"], deny=["log"]) as narrow:
            assert [tool.name for tool in narrow.tools] == ["left__read"]
            assert (await ask(narrow, "left__write", text="x")).cause is Cause.UNKNOWN_TOOL


# --- record and replay -------------------------------------------------------------------------------------


async def scene(pool: Pool, episode: str) -> list[ToolResult]:
    async with pool.lease(["notebook"], episode) as toolbox:
        first = await toolbox.call(calls(("read", {}), ("write", {"text": "x"}), ("read", {})))
        second = await toolbox.call(calls(("fail", {"how": "model"}), ("nope", {}), ("read", {})))
        third = await toolbox.call(calls(("fail", {"how": "provider"})))
        return [*first, *second, *third]


async def test_a_recorded_episode_replays_exactly_without_any_server(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    async with Pool([notebook()], cassette=Cassette(path, Mode.RECORD)) as pool:
        recorded = await scene(pool, "a")
    before, content = descendants(), path.read_bytes()
    async with Pool((), cassette=Cassette(path, Mode.REPLAY)) as pool:
        for episode in ("a", "another episode with the same steps"):
            replayed = await scene(pool, episode)
            assert [(r.content, r.cause) for r in replayed] == [(r.content, r.cause) for r in recorded]
            assert [r.is_replayed for r in replayed] == [r.cause is not Cause.UNKNOWN_TOOL for r in recorded]
        async with pool.lease(["notebook"], "b") as toolbox:
            missed = await ask(toolbox, "write", text="never recorded")
            assert (missed.cause, missed.fault) == (Cause.NOT_RECORDED, Fault.INFRA)
            assert 'notebook/write({"text":"never recorded"})' in missed.content
            stale = await ask(toolbox, "read")
            assert stale.cause is Cause.NOT_RECORDED, "the recorded reads were made in other states"
        assert descendants() == before
    assert path.read_bytes() == content


async def test_a_repaired_call_replays_under_its_old_and_its_new_names(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    server = script_spec("faulty")

    async def write(name: str, *specs: ServerSpec, **settings: Any) -> ToolResult:
        async with Pool(specs, **settings) as pool, pool.lease(["faulty"], "a") as toolbox:
            return await ask(toolbox, "write_file", path=str(tmp_path / "new.txt"), **{name: "x"})

    repaired = await write("msg", server, cassette=Cassette(path, Mode.RECORD))
    assert (repaired.content, repaired.repairs) == ("written", ("msg->text",))
    for name, repairs in (("msg", ("msg->text",)), ("text", ())):
        again = await write(name, cassette=Cassette(path, Mode.REPLAY))
        assert (again.content, again.repairs, again.is_replayed) == (repaired.content, repairs, True)
    assert (await write("msg", server, is_mending=False)).cause is Cause.BAD_ARGUMENTS


async def test_replay_or_call_calls_what_is_missing_in_the_replayed_state(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    steps = [("write", {"text": "x"}), ("read", {}), ("fail", {"how": "provider"})]

    async def played(mode: Mode, chosen: list[tuple[str, dict[str, Any]]]) -> list[ToolResult]:
        cassette = Cassette(path, mode)
        async with leased(notebook(), cassette=cassette) as toolbox:
            results = [await ask(toolbox, name, **arguments) for name, arguments in chosen]
        cassette.close()
        return results

    await played(Mode.RECORD, [steps[0], steps[2]])
    results = await played(Mode.REPLAY_OR_CALL, steps)
    assert [result.is_replayed for result in results] == [True, False, False], "faults are not replayed"
    assert results[1].content == '["x"]', "the replayed write was not made on the live server"
    assert [result.is_replayed for result in await played(Mode.REPLAY, steps)] == [True] * 3


async def test_folders_nested_deeper_than_the_stack_end_neither_the_pool_nor_the_next_command(
    deep_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(deep_folder))
    server = script_spec("faulty", env={"NEST": "${EPISODE_DIR}"}, isolation="process", num_warm=0)
    async with Pool([server]) as pool:
        for number in range(2):
            async with pool.lease(["faulty"], f"episode-{number}") as toolbox:
                nested = await ask(toolbox, "do", what="nest", path="$NEST", levels=1_100)
                assert nested.content == "nested"
    assert not list(deep_folder.glob("turnwise-[0-9]*"))


async def test_no_secret_of_an_env_block_is_shown_or_recorded(tmp_path: Path) -> None:
    secret, path = "sk-TOPSECRET/0123+45", tmp_path / "calls.jsonl"
    server = script_spec("faulty", env={"FAULTY_API_KEY": secret})
    async with leased(server, cassette=Cassette(path, Mode.RECORD)) as toolbox:
        [description] = [tool.description for tool in toolbox.tools if tool.name == "do"]
        shown = await ask(toolbox, "do", what="environment")
        echoed = await ask(toolbox, "do", what="echo", text=f"key is {secret}!")
    assert "[redacted]" in description
    assert '"FAULTY_API_KEY": "[redacted]"' in shown.content
    assert echoed.content.startswith("key is [redacted]!#")
    tools, first, second = path.read_text().splitlines()
    for line in (tools, first, second.partition('"content"')[2]):  # the model's own arguments are kept
        for spelling in (secret, json.dumps(secret)[1:-1], secret.replace("/", "%2F").replace("+", "%2B")):
            assert spelling not in line


async def test_a_key_of_ours_that_a_tool_finds_in_a_file_is_not_shown_unless_it_is_public(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DESKTOP_SESSION", "ubuntu")
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-0123456789ab\nDEMO_TOKEN=demo-token-2024\n")
    open_server = script_spec("faulty", env={"TOKEN": "demo-token-2024"}, public=["TOKEN"], num_warm=0)
    text = (tmp_path / ".env").read_text() + "on ubuntu"
    async with leased(open_server) as toolbox:
        echoed = await ask(toolbox, "do", what="echo", text=text)
    assert echoed.content.startswith("OPENAI_API_KEY=[redacted]\nDEMO_TOKEN=demo-token-2024\non ubuntu#")
