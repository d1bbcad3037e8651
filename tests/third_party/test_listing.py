"""What third-party servers list, and what of it a lease shows: schemas, names, allow and deny lists."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.third_party.installed import LEGACY_VERSION, SERVERS, block, spec
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import Session, command_of
from turnwise.mcp.spec import Isolation, ServerSpec, parse
from turnwise.types import Cause, ToolCall

MODERN_VERSION = "2026-07-28"


def raw_tools(server: ServerSpec, directory: Path) -> list[dict[str, Any]]:
    """The server's own listing, asked for without any SDK."""
    command = command_of(server, directory)
    hello = {
        "protocolVersion": LEGACY_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    }
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    with subprocess.Popen(
        [command.program, *command.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=command.environment,
        cwd=directory,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            replies = iter(process.stdout)
            for message in messages:
                process.stdin.write(json.dumps(message) + "\n")
                process.stdin.flush()
                if "id" not in message:
                    continue
                answer = next(
                    parsed for line in replies if (parsed := json.loads(line)).get("id") == message["id"]
                )
            tools: list[dict[str, Any]] = answer["result"]["tools"]
            return tools
        finally:
            process.kill()


@pytest.mark.parametrize("server", SERVERS)
async def test_tools_and_schemas_are_kept_exactly_as_the_server_gave_them(
    server: str, tmp_path: Path
) -> None:
    raw = raw_tools(spec(server), tmp_path)

    async def listed() -> list[dict[str, Any]]:
        async with Pool([spec(server)]) as pool:
            assert await pool.connect() == {}
            return [
                {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
                for tool in pool.tools
            ]

    usable = [tool for tool in raw if tool.get("execution", {}).get("taskSupport") != "required"]
    expected = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in usable]
    assert len(expected) > 4
    # As text: key order is part of what the model reads, and `==` on dicts would not see it.
    assert json.dumps(await listed()) == json.dumps(expected)


async def test_hints_become_what_may_run_together_and_what_may_be_repeated() -> None:
    async def hints() -> dict[str, tuple[bool, bool]]:
        async with Pool([spec("filesystem"), spec("sqlite")]) as pool:
            await pool.connect()
            return {tool.name: (tool.is_read_only, tool.is_idempotent) for tool in pool.tools}

    found = await hints()
    assert found["read_text_file"][0] is True
    assert found["write_file"] == (False, True)
    assert found["move_file"] == (False, False)
    # The sqlite server gives no hints at all: nothing may be assumed of its tools.
    assert found["read_query"] == (False, False)


async def test_a_tool_that_only_runs_as_a_task_is_not_offered() -> None:
    async def names() -> set[str]:
        async with Pool([spec("everything")]) as pool:
            await pool.connect()
            return {tool.name for tool in pool.tools}

    found = await names()
    assert "echo" in found
    # Its server refuses every plain call: "requires task augmentation (taskSupport: 'required')".
    assert "simulate-research-query" not in found


async def test_a_server_is_offered_nothing_this_client_cannot_do() -> None:
    """The everything server lists these only to clients that declare roots, sampling or elicitation."""

    async def names() -> str:
        async with Pool([spec("everything")]) as pool:
            await pool.connect()
            return " ".join(tool.name for tool in pool.tools)

    found = await names()
    assert not [word for word in ("roots", "sampling", "elicitation") if word in found]


async def test_allow_and_deny_lists_of_mcp_json_and_of_a_lease_narrow_the_tools() -> None:
    narrowed = spec("filesystem", allow=["read_*", "list_*"], deny=["read_media_file"])

    async def names() -> tuple[set[str], set[str], Cause]:
        async with Pool([narrowed]) as pool:
            async with pool.lease(["filesystem"], "all") as toolbox:
                everything = {tool.name for tool in toolbox.tools}
            async with pool.lease(["filesystem"], "few", allow=["read_*"], deny=["*_multiple_*"]) as toolbox:
                few = {tool.name for tool in toolbox.tools}
                [denied] = await toolbox.call([ToolCall("1", "write_file", {"path": "x", "content": "x"})])
            return everything, few, denied.cause

    everything, few, denied = await names()
    reads = {"read_file", "read_text_file", "read_multiple_files"}
    lists = {"list_directory", "list_directory_with_sizes", "list_allowed_directories"}
    assert everything == reads | lists
    assert few == {"read_file", "read_text_file"}
    assert denied is Cause.UNKNOWN_TOOL


async def test_tools_two_servers_share_are_named_by_server_and_reach_their_own_server(tmp_path: Path) -> None:
    servers = {}
    for name in ("left", "right"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "who.txt").write_text(f"I am {name}")
        servers[name] = block("filesystem", template=str(tmp_path / name), allow=["read_text_file"])
    servers["memory"] = block("memory", allow=["read_graph"])
    specs = parse(servers, {}, directory=tmp_path)

    async def ask() -> tuple[set[str], list[str]]:
        async with Pool(specs) as pool, pool.lease(list(servers), "episode") as toolbox:
            calls = [
                ToolCall("1", "right__read_text_file", {"path": "who.txt"}),
                ToolCall("2", "left__read_text_file", {"path": "who.txt"}),
                ToolCall("3", "read_text_file", {"path": "who.txt"}),
            ]
            results = await toolbox.call(calls)
            return {tool.name for tool in toolbox.tools}, [result.content for result in results]

    names, contents = await ask()
    assert names == {"left__read_text_file", "right__read_text_file", "read_graph"}
    assert contents[:2] == ["I am right", "I am left"]
    assert contents[2].startswith("error: unknown tool")


async def test_both_protocol_eras_are_negotiated(tmp_path: Path) -> None:
    script = Path(__file__).with_name("modern_server.py")
    modern = ServerSpec(name="modern", command=sys.executable, args=(str(script),))

    async def version(server: ServerSpec, tool: str, arguments: dict[str, Any]) -> str:
        session = Session(server, tmp_path, lambda text: text)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(session.run())
            await session.opened()
            _, cause = await session.call(tool, arguments, episode="e")
            assert cause is Cause.OK
            await session.close()
        return session.protocol_version

    assert (await version(spec("memory"), "read_graph", {})) == LEGACY_VERSION
    assert (await version(modern, "where", {"what": "this"})) == MODERN_VERSION


async def test_a_server_that_may_change_things_gets_a_process_for_each_episode() -> None:
    async def settled() -> dict[str, Isolation]:
        async with Pool([spec(server) for server in SERVERS]) as pool:
            await pool.connect()
            return {server: pool.isolation(server) for server in SERVERS}

    assert set((await settled()).values()) == {Isolation.PROCESS}
