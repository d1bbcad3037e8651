"""Whatever a model sends to a real server is the model's fault, never one of the infrastructure."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from turnwise.mcp.pool import Pool
from turnwise.mcp.serve import ToolError
from turnwise.mcp.spec import ServerSpec, parse
from turnwise.system.sandbox import Sandbox
from turnwise.types import Cause, Fault, ToolCall
from turnwise.worlds.market.contract import contract
from turnwise.worlds.market.python_tools import MAX_EPISODE_SECONDS, PythonTools

QUICK_PYTHON = """
import asyncio
from turnwise.mcp.serve import serve_stdio
from turnwise.system.sandbox import Sandbox, SandboxLimits
from turnwise.worlds.market.python_tools import serve_python

async def main():
    async with serve_python(Sandbox(SandboxLimits(wall_seconds=1), num_workers=1, packages=())) as service:
        await serve_stdio(service)

asyncio.run(main())
"""
"""The Python server with one worker and a short limit."""

FORGED = """
import json, os
depth = {}
value = json.dumps(dict(value="x", value_json="[" * depth + "]" * depth))
for fd in range(3, 64):
    try:
        os.write(fd, value.encode())
    except OSError:
        pass
os._exit(0)
"""
"""Writes a forged result of a given depth: json.loads accepts deeper ones than json.dumps."""

HOSTILE_TEXTS = {
    "a deep list": "[" * 960 + "]" * 960,
    "a deep object": '{"a":' * 960 + "1" + "}" * 960,
    "too deep to parse": "[" * 100_000,
    "a long integer": "9" * 5_000,
    "a large exponent": "1e999999999",
    "half a character": '"\\ud800"',
    "a zero byte": "a\0b",
    "much": "x" * 200_000,
    "nothing": "",
    "a pattern": "(a+)+$" + "a" * 5_000,
}


def quick_python(**options: Any) -> tuple[ServerSpec, ...]:
    real = {"data": "real"}  # without walls, as `turnwise serve python` runs
    block = {"command": warm.python(*warm.LIGHT), "args": ["-c", QUICK_PYTHON], "turnwise": real | options}
    return parse({"python": block}, {}, directory=Path.cwd())


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with Pool(quick_python()) as pool:
        yield pool


async def causes(pool: Pool, server: str, calls: list[ToolCall]) -> list[Cause]:
    """The causes of the calls' results, in an episode of their own."""
    async with pool.lease([server], secrets.token_hex(4)) as toolbox:
        return [result.cause for result in await toolbox.call(calls)]


def python_calls(*codes: str) -> list[ToolCall]:
    return [ToolCall(str(n), "execute_python", {"code": code}) for n, code in enumerate(codes)]


@pytest.mark.parametrize("isolation", ["keyed", "process"])
async def test_endless_loops_that_queue_for_one_worker_are_tool_errors(isolation: str) -> None:
    async with Pool(quick_python(timeout_seconds=5, isolation=isolation)) as pool:
        found = await causes(pool, "python", python_calls(*["while True: pass"] * 6))
    assert found == [Cause.TOOL_ERROR] * 6


async def test_a_forged_result_is_an_answer_or_a_tool_error(pool: Pool) -> None:
    found = await causes(pool, "python", python_calls(*(FORGED.format(n) for n in range(900, 1000, 10))))
    assert Fault.INFRA not in {cause.fault for cause in found}


def hostile_arguments(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    hostile = {"string": text, "integer": 10**30, "number": 10**30, "boolean": True}
    return {name: hostile[spec["type"]] for name, spec in schema["properties"].items()}


@pytest.mark.parametrize("server", contract()["servers"])
async def test_hostile_arguments_are_never_a_fault_of_the_server(server: str) -> None:
    calls = [
        ToolCall(f"{tool['name']}: {what}", tool["name"], hostile_arguments(tool["inputSchema"], text))
        for tool in contract()["servers"][server]["tools"]
        for what, text in HOSTILE_TEXTS.items()
    ]
    async with Pool([spec for spec in warm.built_in({}) if spec.name == server]) as pool:
        found = await causes(pool, server, calls)
    faults = {call.id: cause for call, cause in zip(calls, found, strict=True) if cause.fault is Fault.INFRA}
    assert faults == {}


async def test_stored_data_may_be_nested_100_deep_and_no_deeper(pool: Pool) -> None:
    def nested(depth: int) -> str:
        return "[" * depth + "]" * depth

    calls = [
        ToolCall("1", "store_execution_result", {"context_key": "k", "data": nested(100)}),
        ToolCall("2", "get_execution_context", {"context_key": "k"}),
        ToolCall("3", "execute_python", {"code": "str(context)"}),
    ]
    assert await causes(pool, "python", calls) == [Cause.OK] * 3
    too_deep = [
        ToolCall(f"{tool} {depth}", tool, {"data": nested(depth), **others})
        for depth in (101, 300, 960)
        for tool, others in (
            ("process_mcp_data", {"processing_code": "1"}),
            ("store_execution_result", {"context_key": "k"}),
        )
    ]
    assert await causes(pool, "python", too_deep) == [Cause.TOOL_ERROR] * 6


async def test_an_episode_that_used_up_its_time_runs_no_more_code() -> None:
    async with Sandbox(num_workers=1, packages=()) as sandbox:
        spent = {"spent": MAX_EPISODE_SECONDS}
        tools = PythonTools(sandbox, asyncio.Semaphore(1), used_seconds=spent)
        with pytest.raises(ToolError, match="no more code is run"):
            await tools.execute_python(code="1", episode="spent")
        with pytest.raises(ToolError, match="no more code is run"):
            await tools.create_data_pipeline(pipeline_steps='["1"]', input_data="1", episode="spent")
        await tools.execute_python(code="import time\ntime.sleep(0.2)\n1", episode="fresh")
        assert tools.used_seconds["fresh"] >= 0.2
        # a client that names no episode is not a conversation that ends
        assert await tools.execute_python(code="1", episode="") == {"value": 1}
        assert "" not in tools.used_seconds
        await tools.drop("spent")
        assert await tools.execute_python(code="1", episode="spent") == {"value": 1}
