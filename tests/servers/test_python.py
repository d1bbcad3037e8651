"""Plays the six Python tools through their service, on a real sandbox."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sandbox.processes import descendants, is_of_a_sandbox
from turnwise.mcp.serve import Service, ToolError, Unavailable
from turnwise.sandbox import Kind, Sandbox, SandboxIsolation, SandboxLimits
from turnwise.servers.python import MAX_KEPT_BYTES, MAX_KEYS, serve_python

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call() -> Iterator[Call]:
    """`call(tool, episode="e", **arguments)`."""
    with asyncio.Runner() as runner:
        context = serve_python(Sandbox(SandboxLimits(wall_seconds=1.5), num_workers=1))
        service = runner.run(context.__aenter__())
        yield lambda tool, episode="e", **arguments: runner.run(handle(service, tool, episode, arguments))
        runner.run(context.__aexit__(None, None, None))


async def handle(service: Service, tool: str, episode: str, arguments: dict[str, Any]) -> Any:
    (found,) = [one_tool for one_tool in service.tools if one_tool.name == tool]
    return await found.handler(arguments, episode)


async def drop(service: Service, episode: str) -> None:
    assert service.drop is not None
    await service.drop(episode)


def test_code_answers_with_only_what_there_is(call: Call) -> None:
    assert call("execute_python", code="print('a')\n1 + 1") == {"stdout": "a\n", "value": 2}
    assert call("execute_python", code="0.0", description="zero") == {"value": 0.0}
    assert call("execute_python", code="print('a')") == {"stdout": "a\n"}
    assert call("execute_python", code="object()")["value"].startswith("<object object")
    assert "print it" in call("execute_python", code="x = 1")["note"]
    assert call("execute_python", code="list(range(100_000))")["value"].endswith("… [cut]")


def test_a_mistake_in_the_code_is_the_models_and_keeps_what_was_printed(call: Call) -> None:
    with pytest.raises(ToolError) as told:
        call("execute_python", code="print('so far')\n{}['k']")
    assert "KeyError: 'k'" in str(told.value)
    assert str(told.value).endswith("printed before that:\nso far\n")
    with pytest.raises(ToolError, match=r"longer than 1.5 s"):
        call("execute_python", code="while True: pass")
    with pytest.raises(ToolError, match="longer than 100000 characters"):
        call("execute_python", code="#" * 100_001)


def test_data_is_bound_and_result_is_taken(call: Call) -> None:
    rows = json.dumps([{"p": 1}, {"p": 4}])
    assert call("process_mcp_data", data=rows, processing_code="sum(r['p'] for r in data)") == {"value": 5}
    assert call("process_mcp_data", data=rows, processing_code="result = len(data)") == {"value": 2}
    assert call("process_mcp_data", data="[1, NaN]", processing_code="data") == {"value": [1, None]}


@pytest.mark.parametrize("data", ["", "{'a': 1}", "[1,", "price: 5", "[" * 100_000, "1" * 5000])
def test_data_that_is_not_json_is_named_as_such(call: Call, data: str) -> None:
    with pytest.raises(ToolError, match=r"data is not (valid|usable) JSON"):
        call("process_mcp_data", data=data, processing_code="1")
    with pytest.raises(ToolError, match=r"data is not (valid|usable) JSON"):
        call("store_execution_result", context_key="k", data=data)


BARS = [
    {"date": "2024-01-03", "close": 12.0, "volume": "30"},
    {"date": "2024-01-02", "close": 11.0, "volume": "20"},
    {"date": "2024-01-01", "close": 10.0, "volume": "10"},
]


def test_a_summary_describes_each_numeric_column(call: Call) -> None:
    summary = call("analyze_financial_data", data=json.dumps(BARS), analysis_type="summary")
    close = {"count": 3, "mean": 11.0, "min": 10.0, "max": 12.0, "median": 11.0, "std": 1.0}
    assert summary["rows"] == 3
    assert summary["columns"]["close"] == close
    assert summary["columns"]["volume"]["mean"] == 20.0


def test_a_trend_runs_from_the_oldest_to_the_newest(call: Call) -> None:
    trend = call("analyze_financial_data", data=json.dumps({"results": BARS}), analysis_type="trend")
    assert (trend["from"], trend["to"]) == ("2024-01-01", "2024-01-03")
    assert trend["columns"]["close"] == {
        "first": 10.0, "last": 12.0, "change": 2.0, "change_percent": 20.0, "slope": 1.0, "direction": "up",
    }  # fmt: skip


@pytest.mark.parametrize("shape", [BARS, {"close": [10, 11, 12], "volume": [10, 20, 30]}])
def test_a_correlation_pairs_the_columns_of_any_shape(call: Call, shape: Any) -> None:
    told = call("analyze_financial_data", data=json.dumps(shape), analysis_type="correlation")
    assert told["correlation"]["close"]["volume"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": "[]", "analysis_type": "summary"}, "no numeric columns"),
        ({"data": '[{"a": "x"}]', "analysis_type": "trend"}, "no numeric columns"),
        ({"data": "[1, 2]", "analysis_type": "correlation"}, "at least two numeric columns"),
        ({"data": "[1]", "analysis_type": "custom"}, "needs custom_code"),
        ({"data": "[1]", "analysis_type": "magic"}, "must be summary"),
        ({"data": "[1e308, 1e308]", "analysis_type": "custom", "custom_code": "1 / 0"}, "ZeroDivisionError"),
    ],
)
def test_an_analysis_says_what_it_lacks(call: Call, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        call("analyze_financial_data", **arguments)


def test_a_custom_analysis_runs_its_code(call: Call) -> None:
    told = call("analyze_financial_data", data="[3, 4]", analysis_type="custom", custom_code="max(data)")
    assert told == {"value": 4}


def test_each_step_of_a_pipeline_works_on_the_last_result(call: Call) -> None:
    pytest.importorskip("pandas")
    steps = [
        {"name": "frame", "code": "import pandas as pd\npd.DataFrame(data)"},
        "data = data[data.close > 10]",
        {"code": "result = data.close.sum()"},
    ]
    told = call("create_data_pipeline", pipeline_steps=json.dumps(steps), input_data=json.dumps(BARS))
    assert told == {"value": 23.0}


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("[]", "must be a JSON array"),
        ('{"code": "1"}', "must be a JSON array"),
        ('[{"name": "x"}]', "step 1 has no code"),
        ('["1", 2]', "step 2 has no code"),
        ('["1", "data.x"]', '"<step 2>"'),
        (json.dumps(["1"] * 21), "at most 20 steps"),
        ("nonsense", "pipeline_steps is not valid JSON"),
    ],
)
def test_a_pipeline_names_its_bad_step(call: Call, steps: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        call("create_data_pipeline", pipeline_steps=steps, input_data="1")


def test_values_stay_with_their_episode(call: Call) -> None:
    assert call("store_execution_result", "one", context_key="k", data='{"a": 1}') == {
        "stored": "k",
        "keys": ["k"],
    }
    assert call("get_execution_context", "one") == {"keys": ["k"]}
    assert call("get_execution_context", "one", context_key="k") == {"k": {"a": 1}}
    assert call("execute_python", "one", code="context['k']['a']") == {"value": 1}
    assert call("get_execution_context", "two") == {"keys": []}
    assert call("execute_python", "two", code="context") == {"value": {}}
    with pytest.raises(ToolError, match="nothing is stored under 'k'; stored: nothing"):
        call("get_execution_context", "two", context_key="k")


def test_what_an_episode_keeps_is_bounded(call: Call) -> None:
    for number in range(MAX_KEYS):
        call("store_execution_result", "full", context_key=f"k{number}", data="1")
    with pytest.raises(ToolError, match=f"at most {MAX_KEYS} values"):
        call("store_execution_result", "full", context_key="one more", data="1")
    call("store_execution_result", "full", context_key="k0", data="2")
    with pytest.raises(ToolError, match=f"at most {MAX_KEPT_BYTES} bytes"):
        call("store_execution_result", "full", context_key="k0", data=json.dumps("x" * MAX_KEPT_BYTES))
    assert call("get_execution_context", "full", context_key="k0") == {"k0": 2}
    with pytest.raises(ToolError, match="context_key"):
        call("store_execution_result", "full", context_key="", data="1")


async def test_a_dropped_episode_is_forgotten() -> None:
    async with serve_python(Sandbox(num_workers=1, packages=())) as service:
        await handle(service, "store_execution_result", "one", {"context_key": "k", "data": "1"})
        await handle(service, "store_execution_result", "two", {"context_key": "k", "data": "2"})
        await drop(service, "one")
        await drop(service, "never seen")
        assert await handle(service, "get_execution_context", "one", {}) == {"keys": []}
        assert await handle(service, "get_execution_context", "two", {}) == {"keys": ["k"]}


async def test_without_isolation_the_server_lives_and_refuses_by_name() -> None:
    async with serve_python(Sandbox(walls=SandboxIsolation(Kind.NONE, "install bubblewrap"))) as service:
        for tool, arguments in (
            ("execute_python", {"code": "1"}),
            ("create_data_pipeline", {"pipeline_steps": '["1"]', "input_data": "1"}),
        ):
            with pytest.raises(Unavailable, match="install bubblewrap"):
                await handle(service, tool, "e", arguments)
        assert await handle(service, "get_execution_context", "e", {}) == {"keys": []}


async def test_a_sandbox_that_dies_is_not_the_models_fault() -> None:
    async with serve_python(Sandbox(num_workers=1, packages=())) as service:
        await handle(service, "execute_python", "e", {"code": "1"})
        async with asyncio.TaskGroup() as group:
            group.create_task(_expect_unavailable(service))
            await asyncio.sleep(0.3)
            # stopped first: one that outlived another would say how that one died
            pids = [pid for pid in descendants(os.getpid()) if is_of_a_sandbox(pid)]
            for signal_number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):  # it died with another
                        os.kill(pid, signal_number)
        assert await handle(service, "execute_python", "e", {"code": "6 * 7"}) == {"value": 42}


async def _expect_unavailable(service: Service) -> None:
    with pytest.raises(Unavailable, match="the sandbox died"):
        await handle(service, "execute_python", "e", {"code": "import time\ntime.sleep(60)"})
