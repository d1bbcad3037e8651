"""What third-party servers list, and what a lease shows of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.notes import notes_spec
from tests.mcp.raw_stdio import talk
from tests.third_party.installed import LEGACY_VERSION, PLACES, spec
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import Session, command_of
from turnwise.mcp.spec import Isolation, ServerSpec
from turnwise.system.busy_clock import BusyClock
from turnwise.types import Cause

MODERN_VERSION = "2026-07-28"


def raw_tools(server: ServerSpec, directory: Path) -> list[dict[str, Any]]:
    """The server's own listing, requested without any SDK."""
    command = command_of(server, directory)
    client = {"capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
    messages = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY_VERSION, **client}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list", "params": {}},
    ]
    options = {"env": command.environment, "cwd": directory}
    replies, _ = talk([command.program, *command.args], messages, **options)
    tools: list[dict[str, Any]] = replies[2]["result"]["tools"]
    return tools


async def test_tools_are_offered_exactly_as_their_servers_list_them(tmp_path: Path) -> None:
    for server in PLACES:
        raw = await asyncio.to_thread(raw_tools, spec(server), tmp_path)
        usable = [tool for tool in raw if tool.get("execution", {}).get("taskSupport") != "required"]
        expected = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in usable]
        assert len(expected) > 4
        async with Pool([spec(server)]) as pool:
            assert await pool.connect() == {}
            assert pool.isolation(server) is Isolation.PROCESS, "it may change things"
            listed = [
                {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
                for tool in pool.tools
            ]
            hints = {tool.name: (tool.is_read_only, tool.is_idempotent) for tool in pool.tools}
        # As text: key order is part of what the model reads, and `==` on dicts would not see it.
        assert json.dumps(listed) == json.dumps(expected)
        if server == "filesystem":
            assert hints["read_text_file"][0] is True
            assert hints["write_file"] == (False, True)
            assert hints["move_file"] == (False, False)
        if server == "sqlite":
            assert hints["read_query"] == (False, False), "it gives no hints, so nothing may be assumed"
        if server == "everything":
            # The server refuses every plain call of it: "requires task augmentation".
            assert "simulate-research-query" in {tool["name"] for tool in raw} - set(hints)
            # It lists these only to clients that declare roots, sampling or elicitation.
            names = " ".join(hints)
            assert not [word for word in ("roots", "sampling", "elicitation") if word in names]


@pytest.mark.parametrize("era", [LEGACY_VERSION, MODERN_VERSION])
async def test_both_protocol_eras_are_negotiated(tmp_path: Path, era: str) -> None:
    server, tool = (spec("memory"), "read_graph") if era == LEGACY_VERSION else (notes_spec(), "echo")
    session = Session(server, tmp_path, lambda text: text)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(session.run())
        await session.wait_ready()
        _, cause = await session.call(tool, {}, episode="e", clock=BusyClock())
        assert cause is Cause.OK
        await session.close()
    assert session.introduction.protocol_version == era
