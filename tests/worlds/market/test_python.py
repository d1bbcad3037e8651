"""The six Python tools, called through their service on a real sandbox."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.system.sandbox.processes import descendants, is_of_a_sandbox
from turnwise.mcp.serve import Service, ToolError, Unavailable
from turnwise.system.sandbox import Kind, Sandbox, SandboxIsolation, SandboxLimits
from turnwise.worlds.market.python_tools import MAX_KEPT_BYTES, MAX_KEYS, serve_python

Call = Callable[..., Awaitable[Any]]


def caller(service: Service) -> Call:
    """`await call(tool, episode="e", **arguments)`."""
    handlers = {tool.name: tool.handler for tool in service.tools}
    return lambda tool, episode="e", **arguments: handlers[tool](arguments, episode)


@pytest.fixture(scope="module")
async def call() -> AsyncIterator[Call]:
    async with serve_python(Sandbox(SandboxLimits(wall_seconds=1.5), num_workers=1)) as service:
        yield caller(service)


ROWS = json.dumps([{"p": 1}, {"p": 4}])
BARS = [
    {"date": "2024-01-03", "close": 12.0, "volume": "30"},
    {"date": "2024-01-02", "close": 11.0, "volume": "20"},
    {"date": "2024-01-01", "close": 10.0, "volume": "10"},
]


@pytest.mark.parametrize(
    ("tool", "arguments", "answer"),
    [
        ("execute_python", {"code": "print('a')\n1 + 1"}, {"stdout": "a\n", "value": 2}),
        ("execute_python", {"code": "0.0", "description": "zero"}, {"value": 0.0}),
        ("execute_python", {"code": "print('a')"}, {"stdout": "a\n"}),
        ("process_mcp_data", {"data": ROWS, "processing_code": "sum(r['p'] for r in data)"}, {"value": 5}),
        ("process_mcp_data", {"data": ROWS, "processing_code": "result = len(data)"}, {"value": 2}),
        ("process_mcp_data", {"data": "[1, NaN]", "processing_code": "data"}, {"value": [1, None]}),
        (
            "analyze_financial_data",
            {"data": "[3, 4]", "analysis_type": "custom", "custom_code": "max(data)"},
            {"value": 4},
        ),
    ],
)
async def test_code_answers_with_what_it_printed_and_its_value(
    call: Call, tool: str, arguments: dict[str, str], answer: Any
) -> None:
    assert await call(tool, **arguments) == answer


async def test_a_value_that_is_not_json_is_described(call: Call) -> None:
    assert (await call("execute_python", code="object()"))["value"].startswith("<object object")
    assert (await call("execute_python", code="list(range(100_000))"))["value"].endswith("… [cut]")
    assert "print it" in (await call("execute_python", code="x = 1"))["note"]


async def test_the_error_of_failing_code_keeps_what_was_printed(call: Call) -> None:
    with pytest.raises(ToolError, match="KeyError: 'k'") as caught:
        await call("execute_python", code="print('so far')\n{}['k']")
    assert str(caught.value).endswith("printed before that:\nso far\n")


@pytest.mark.parametrize("data", ["", "{'a': 1}", "[1,", "price: 5", "[" * 100_000, "1" * 5000])
async def test_data_that_is_not_json_is_named_as_such(call: Call, data: str) -> None:
    with pytest.raises(ToolError, match=r"data is not (valid|usable) JSON"):
        await call("process_mcp_data", data=data, processing_code="1")
    with pytest.raises(ToolError, match=r"data is not (valid|usable) JSON"):
        await call("store_execution_result", context_key="k", data=data)


async def test_a_summary_describes_each_numeric_column(call: Call) -> None:
    summary = await call("analyze_financial_data", data=json.dumps(BARS), analysis_type="summary")
    close = {"count": 3, "mean": 11.0, "min": 10.0, "max": 12.0, "median": 11.0, "std": 1.0}
    assert summary["rows"] == 3
    assert summary["columns"]["close"] == close
    assert summary["columns"]["volume"]["mean"] == 20.0


async def test_a_trend_runs_from_the_oldest_to_the_newest(call: Call) -> None:
    trend = await call("analyze_financial_data", data=json.dumps({"results": BARS}), analysis_type="trend")
    assert (trend["from"], trend["to"]) == ("2024-01-01", "2024-01-03")
    assert trend["columns"]["close"] == {
        "first": 10.0, "last": 12.0, "change": 2.0, "change_percent": 20.0, "slope": 1.0, "direction": "up",
    }  # fmt: skip


@pytest.mark.parametrize("shape", [BARS, {"close": [10, 11, 12], "volume": [10, 20, 30]}])
async def test_a_correlation_pairs_the_columns_of_any_shape(call: Call, shape: Any) -> None:
    answer = await call("analyze_financial_data", data=json.dumps(shape), analysis_type="correlation")
    assert answer["correlation"]["close"]["volume"] == pytest.approx(1.0)


def analysis(data: str, kind: str, **more: str) -> dict[str, str]:
    return {"data": data, "analysis_type": kind, **more}


def pipeline(steps: str) -> dict[str, str]:
    return {"pipeline_steps": steps, "input_data": "1"}


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("execute_python", {"code": "while True: pass"}, r"longer than 1.5 s"),
        ("execute_python", {"code": "#" * 100_001}, "longer than 100000 characters"),
        ("analyze_financial_data", analysis("[]", "summary"), "no numeric columns"),
        ("analyze_financial_data", analysis('[{"a": "x"}]', "trend"), "no numeric columns"),
        ("analyze_financial_data", analysis("[1, 2]", "correlation"), "at least two numeric columns"),
        ("analyze_financial_data", analysis("[1]", "custom"), "needs custom_code"),
        ("analyze_financial_data", analysis("[1]", "magic"), "must be summary"),
        ("analyze_financial_data", analysis("[1]", "custom", custom_code="1 / 0"), "ZeroDivisionError"),
        ("create_data_pipeline", pipeline("[]"), "must be a JSON array"),
        ("create_data_pipeline", pipeline('{"code": "1"}'), "must be a JSON array"),
        ("create_data_pipeline", pipeline('[{"name": "x"}]'), "step 1 has no code"),
        ("create_data_pipeline", pipeline('["1", 2]'), "step 2 has no code"),
        ("create_data_pipeline", pipeline('["1", "data.x"]'), '"<step 2>"'),
        ("create_data_pipeline", pipeline(json.dumps(["1"] * 21)), "at most 20 steps"),
        ("create_data_pipeline", pipeline("nonsense"), "pipeline_steps is not valid JSON"),
    ],
)
async def test_a_mistake_is_a_tool_error_that_names_it(
    call: Call, tool: str, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        await call(tool, **arguments)


async def test_a_pipeline_step_works_on_the_result_of_the_step_before(call: Call) -> None:
    pytest.importorskip("pandas")
    steps = [
        {"name": "frame", "code": "import pandas as pd\npd.DataFrame(data)"},
        "data = data[data.close > 10]",
        {"code": "result = data.close.sum()"},
    ]
    answer = await call("create_data_pipeline", pipeline_steps=json.dumps(steps), input_data=json.dumps(BARS))
    assert answer == {"value": 23.0}


async def test_values_stay_with_their_episode(call: Call) -> None:
    stored = await call("store_execution_result", "one", context_key="k", data='{"a": 1}')
    assert stored == {"stored": "k", "keys": ["k"]}
    assert await call("get_execution_context", "one") == {"keys": ["k"]}
    assert await call("get_execution_context", "one", context_key="k") == {"k": {"a": 1}}
    assert await call("execute_python", "one", code="context['k']['a']") == {"value": 1}
    assert await call("get_execution_context", "two") == {"keys": []}
    assert await call("execute_python", "two", code="context") == {"value": {}}
    with pytest.raises(ToolError, match="nothing is stored under 'k'; stored: nothing"):
        await call("get_execution_context", "two", context_key="k")


async def test_what_an_episode_keeps_is_bounded(call: Call) -> None:
    for number in range(MAX_KEYS):
        await call("store_execution_result", "full", context_key=f"k{number}", data="1")
    with pytest.raises(ToolError, match=f"at most {MAX_KEYS} values"):
        await call("store_execution_result", "full", context_key="one more", data="1")
    await call("store_execution_result", "full", context_key="k0", data="2")
    with pytest.raises(ToolError, match=f"at most {MAX_KEPT_BYTES} bytes"):
        await call("store_execution_result", "full", context_key="k0", data=json.dumps("x" * MAX_KEPT_BYTES))
    assert await call("get_execution_context", "full", context_key="k0") == {"k0": 2}
    with pytest.raises(ToolError, match="context_key"):
        await call("store_execution_result", "full", context_key="", data="1")


async def test_a_dropped_episode_is_forgotten() -> None:
    async with serve_python(Sandbox(num_workers=1, packages=())) as service:
        call = caller(service)
        await call("store_execution_result", "one", context_key="k", data="1")
        await call("store_execution_result", "two", context_key="k", data="2")
        assert service.drop is not None
        await service.drop("one")
        await service.drop("never seen")
        assert await call("get_execution_context", "one") == {"keys": []}
        assert await call("get_execution_context", "two") == {"keys": ["k"]}


async def test_without_isolation_the_server_runs_and_refuses_code_with_the_reason() -> None:
    async with serve_python(Sandbox(walls=SandboxIsolation(Kind.NONE, "install bubblewrap"))) as service:
        call = caller(service)
        with pytest.raises(Unavailable, match="install bubblewrap"):
            await call("execute_python", code="1")
        with pytest.raises(Unavailable, match="install bubblewrap"):
            await call("create_data_pipeline", pipeline_steps='["1"]', input_data="1")
        assert await call("get_execution_context") == {"keys": []}


async def test_a_sandbox_that_dies_is_not_the_models_fault() -> None:
    async def sleep(call: Call) -> None:
        with pytest.raises(Unavailable, match="the sandbox died"):
            await call("execute_python", code="import time\ntime.sleep(60)")

    async with serve_python(Sandbox(num_workers=1, packages=())) as service:
        call = caller(service)
        await call("execute_python", code="1")
        async with asyncio.TaskGroup() as group:
            group.create_task(sleep(call))
            await asyncio.sleep(0.3)
            # All are stopped before any is killed: a survivor would report how the others died.
            pids = [pid for pid in descendants(os.getpid()) if is_of_a_sandbox(pid)]
            for signal_number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):  # it died with another
                        os.kill(pid, signal_number)
        assert await call("execute_python", code="6 * 7") == {"value": 42}
