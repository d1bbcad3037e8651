"""The Python tools: code runs in the sandbox, and an episode's stored values stay its own."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from turnwise.mcp.serve import Service, ToolError, Unavailable
from turnwise.system.sandbox import Execution, NoIsolation, Sandbox, SandboxDown
from turnwise.system.sandbox.json_depth import MAX_DEPTH, is_deeper
from turnwise.worlds.market.contract import service_of

MAX_CODE_BYTES = 100_000
MAX_DATA_BYTES = 4 << 20
MAX_STEPS = 20
MAX_KEYS = 64
"""The number of values one episode may store."""
MAX_KEPT_BYTES = 1 << 20
"""The total size of the values one episode stores, names included."""
MAX_EPISODE_SECONDS = 60.0
"""The total run time of one episode's code: six calls that time out. An episode that runs out of wall time
counts as lost to infrastructure, so its code must not be able to use up that time."""

_SHOWN_VALUE_BYTES = 32 << 10
_SHOWN_STDOUT_CHARS = 2000
"""Output shown along with an error; it is short because the error is what the model must read."""
_TOO_DEEP = f"{{}} is not usable JSON: nested deeper than {MAX_DEPTH} levels"
_NOTE = "the code printed nothing and its last line has no value: print it, or end with an expression"


class Runner(Protocol):
    """The part of a `Sandbox` that the tools use."""

    async def run(
        self, code: str, variables: Mapping[str, Any] | None = None, *, result_names: Sequence[str] = ()
    ) -> Execution: ...

    async def run_steps(
        self, steps: Sequence[str], variables: Mapping[str, Any] | None = None
    ) -> Execution: ...


@dataclass(frozen=True, slots=True)
class PythonTools:
    """The backend: one method per tool in tools.json."""

    runner: Runner
    slots: asyncio.Semaphore
    """One slot per concurrent execution; time spent waiting for a slot is not charged to the episode."""
    kept: dict[str, dict[str, str]] = field(default_factory=dict)
    """Episode → name → stored value as JSON text."""
    used_seconds: dict[str, float] = field(default_factory=dict)
    """Episode → run time of its code so far; calls that name no episode are not counted."""

    async def execute_python(self, *, code: str, episode: str, description: str = "") -> dict[str, Any]:
        return _answer(await self._run(code, episode, {}))

    async def process_mcp_data(
        self, *, data: str, processing_code: str, episode: str, description: str = ""
    ) -> dict[str, Any]:
        value = _parse("data", data)
        return _answer(await self._run(processing_code, episode, {"data": value}, result_names=("result",)))

    async def analyze_financial_data(
        self, *, data: str, analysis_type: str, episode: str, custom_code: str = ""
    ) -> Any:
        value = _parse("data", data)
        if analysis_type == "custom":
            if not custom_code.strip():
                raise ToolError("analysis_type `custom` needs custom_code: Python that works on `data`")
            return _answer(await self._run(custom_code, episode, {"data": value}, result_names=("result",)))
        if analysis_type not in _ANALYSES:
            raise ToolError(
                f"analysis_type must be summary, trend, correlation or custom, not {analysis_type!r}"
            )
        execution = await self._run(_ANALYSES[analysis_type], episode, {"data": value})
        if execution.error or execution.value_json is None:
            raise ToolError(
                f"the {analysis_type} failed: {execution.error.rpartition(chr(10))[2] or 'no result'}"
            )
        result = json.loads(execution.value_json)
        if isinstance(result, str):
            raise ToolError(result)
        return result

    async def create_data_pipeline(
        self, *, pipeline_steps: str, input_data: str, episode: str, description: str = ""
    ) -> dict[str, Any]:
        steps = _steps(_parse("pipeline_steps", pipeline_steps))
        variables = {"data": _parse("input_data", input_data), "context": self._context(episode)}
        for step in steps:
            _check_code(step)
        return _answer(await self._timed(episode, lambda: self.runner.run_steps(steps, variables)))

    async def store_execution_result(
        self, *, context_key: str, data: str, episode: str, description: str = ""
    ) -> dict[str, Any]:
        if not context_key or len(context_key) > 200:
            raise ToolError("context_key must have 1 to 200 characters")
        text = json.dumps(_parse("data", data), ensure_ascii=False, separators=(",", ":"))
        values = {**self.kept.get(episode, {}), context_key: text}
        if len(values) > MAX_KEYS:
            raise ToolError(f"an episode keeps at most {MAX_KEYS} values; store under a name already used")
        if sum(len(key) + len(value) for key, value in values.items()) > MAX_KEPT_BYTES:
            raise ToolError(
                f"an episode keeps at most {MAX_KEPT_BYTES} bytes; store less, or replace a value"
            )
        self.kept[episode] = values
        return {"stored": context_key, "keys": sorted(values)}

    async def get_execution_context(self, *, episode: str, context_key: str = "") -> Any:
        values = self.kept.get(episode, {})
        if not context_key:
            return {"keys": sorted(values)}
        if context_key not in values:
            raise ToolError(
                f"nothing is stored under {context_key!r}; stored: {', '.join(sorted(values)) or 'nothing'}"
            )
        return {context_key: json.loads(values[context_key])}

    async def drop(self, episode: str) -> None:
        self.kept.pop(episode, None)
        self.used_seconds.pop(episode, None)

    async def _run(
        self, code: str, episode: str, variables: Mapping[str, Any], result_names: Sequence[str] = ()
    ) -> Execution:
        _check_code(code)
        values = {**variables, "context": self._context(episode)}
        return await self._timed(episode, lambda: self.runner.run(code, values, result_names=result_names))

    async def _timed(self, episode: str, run: Callable[[], Awaitable[Execution]]) -> Execution:
        """Run code and charge its time to the episode, even if the code fails; ToolError if none is left."""
        async with self.slots:
            used_seconds = self.used_seconds.get(episode, 0.0)
            if used_seconds >= MAX_EPISODE_SECONDS:
                raise ToolError(
                    f"no more code is run: it has used the {MAX_EPISODE_SECONDS:g} s there are in all"
                )
            async with _infrastructure():
                execution = await run()
            if episode:
                self.used_seconds[episode] = self.used_seconds.get(episode, 0.0) + execution.seconds
            return execution

    def _context(self, episode: str) -> dict[str, Any]:
        return {key: json.loads(text) for key, text in self.kept.get(episode, {}).items()}


@dataclass(frozen=True, slots=True)
class _Refusing:
    """Replaces the sandbox if isolation is impossible: the server starts, and tools say why no code runs."""

    reason: str

    async def run(
        self, code: str, variables: Mapping[str, Any] | None = None, *, result_names: Sequence[str] = ()
    ) -> Execution:
        raise NoIsolation(self.reason)

    async def run_steps(self, steps: Sequence[str], variables: Mapping[str, Any] | None = None) -> Execution:
        raise NoIsolation(self.reason)


@contextlib.asynccontextmanager
async def serve_python(sandbox: Sandbox | None = None) -> AsyncIterator[Service]:
    """Open the service and its sandbox; without isolation, every run is refused with the reason."""
    async with contextlib.AsyncExitStack() as stack:
        sandbox = sandbox or Sandbox(num_workers=min(4, os.cpu_count() or 1))
        runner: Runner
        try:
            runner = await stack.enter_async_context(sandbox)
        except (NoIsolation, SandboxDown) as error:
            runner = _Refusing(str(error))
        tools = PythonTools(runner, asyncio.Semaphore(sandbox.num_workers))
        yield service_of("python", tools, drop=tools.drop, concurrency=sandbox.num_workers)


@contextlib.asynccontextmanager
async def _infrastructure() -> AsyncIterator[None]:
    try:
        yield
    except (NoIsolation, SandboxDown) as error:
        raise Unavailable(str(error)) from error


def _answer(execution: Execution) -> dict[str, Any]:
    """Return only the fields that have a value, because small models read this."""
    if execution.error:
        raise ToolError(_explain(execution))
    answer: dict[str, Any] = {}
    if execution.stdout:
        answer["stdout"] = execution.stdout
    if execution.value_json is not None and len(execution.value_json) <= _SHOWN_VALUE_BYTES:
        answer["value"] = json.loads(execution.value_json)
    elif execution.value:
        answer["value"] = execution.value
    return answer or {"note": _NOTE}


def _explain(execution: Execution) -> str:
    if not execution.stdout:
        return execution.error
    shown = execution.stdout[:_SHOWN_STDOUT_CHARS]
    mark = "" if len(shown) == len(execution.stdout) else "… [cut]"
    return f"{execution.error}\n\nprinted before that:\n{shown}{mark}"


def _parse(name: str, text: str) -> Any:
    if len(text) > MAX_DATA_BYTES:
        raise ToolError(f"{name} is longer than {MAX_DATA_BYTES} characters")
    try:
        value = json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise ToolError(f"{name} is not valid JSON: {error}") from error
    except RecursionError:
        raise ToolError(_TOO_DEEP.format(name)) from None
    if is_deeper(value, MAX_DEPTH):
        raise ToolError(_TOO_DEEP.format(name))
    return value


def _no_number(name: str) -> None:
    """Return None for NaN and Infinity, which many APIs send although JSON does not allow them."""


def _steps(parsed: Any) -> list[str]:
    if not isinstance(parsed, list) or not parsed:
        raise ToolError('pipeline_steps must be a JSON array such as [{"code": "…"}]')
    if len(parsed) > MAX_STEPS:
        raise ToolError(f"pipeline_steps may have at most {MAX_STEPS} steps, not {len(parsed)}")
    steps = []
    for number, step in enumerate(parsed, start=1):
        code = step.get("code") if isinstance(step, dict) else step
        if not isinstance(code, str) or not code.strip():
            raise ToolError(f"step {number} has no code: each step is an object with `code`, or a string")
        steps.append(code)
    return steps


def _check_code(code: str) -> None:
    if len(code) > MAX_CODE_BYTES:
        raise ToolError(f"the code is longer than {MAX_CODE_BYTES} characters")


_TABLE = '''
import math, statistics

def records(value, depth=0):
    """Rows of a table, whatever the shape it came in."""
    if isinstance(value, list):
        if value and all(isinstance(item, dict) for item in value):
            return value
        return [{"value": item} for item in value if isinstance(item, (int, float))]
    if isinstance(value, dict):
        lists = {key: item for key, item in value.items() if isinstance(item, list) and item}
        cells = [cell for item in lists.values() for cell in item]
        if cells and all(cell is None or isinstance(cell, (int, float, str)) for cell in cells):
            length = max(map(len, lists.values()))
            return [{key: item[i] for key, item in lists.items() if i < len(item)} for i in range(length)]
        for item in value.values():
            rows = records(item, depth + 1) if depth < 3 and isinstance(item, (list, dict)) else []
            if rows:
                return rows
        return [value] if any(isinstance(item, (int, float)) for item in value.values()) else []
    return []

def number(value):
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = float(value.replace(",", "").rstrip("%"))
        except ValueError:
            return None
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None

TIMES = ("date", "datetime", "timestamp", "time", "day", "t", "publishedDate", "calendarYear", "year")
rows = records(data)
when = next((name for name in TIMES if rows and all(name in row for row in rows)), None)
if when is not None and len({type(row[when]) for row in rows}) == 1:
    rows = sorted(rows, key=lambda row: row[when])  # many APIs send the newest first
names = list(dict.fromkeys(name for row in rows for name in row if name not in TIMES))
columns = {name: [number(row.get(name)) for row in rows] for name in names}
columns = {name: values for name, values in columns.items() if any(value is not None for value in values)}

def tidy(value):
    return float(f"{value:.8g}")
'''

_NO_NUMBERS = (
    '"data has no numeric columns: give rows such as [{\\"date\\": \\"2024-01-02\\", \\"close\\": 1.5}]"'
)

_SUMMARY = f"""
def summary(values):
    values = [value for value in values if value is not None]
    row = {{"count": len(values), "mean": statistics.fmean(values), "min": min(values), "max": max(values)}}
    row["median"] = statistics.median(values)
    if len(values) > 1:
        row["std"] = statistics.stdev(values)
    return {{key: value if key == "count" else tidy(value) for key, value in row.items()}}

{{"rows": len(rows), "columns": {{name: summary(values) for name, values in columns.items()}}}} if columns \
    else {_NO_NUMBERS}
"""

_TREND = f"""
def trend(values):
    points = [(i, value) for i, value in enumerate(values) if value is not None]
    first, last = points[0][1], points[-1][1]
    row = {{"first": first, "last": last, "change": tidy(last - first)}}
    if first:
        row["change_percent"] = tidy(100 * (last - first) / abs(first))
    if len(points) > 1:
        row["slope"] = tidy(statistics.linear_regression(*zip(*points)).slope)
    row["direction"] = "up" if last > first else "down" if last < first else "flat"
    return row

{{"rows": len(rows), "from": rows[0].get(when), "to": rows[-1].get(when), \
    "columns": {{name: trend(values) for name, values in columns.items()}}}} if columns else {_NO_NUMBERS}
"""

_CORRELATION = f"""
def correlation(left, right):
    pairs = [(x, y) for x, y in zip(left, right) if x is not None and y is not None]
    if len(pairs) < 2:
        return None
    try:
        return tidy(statistics.correlation(*zip(*pairs)))
    except statistics.StatisticsError:
        return None  # a constant column correlates with nothing

matrix = {{a: {{b: correlation(columns[a], columns[b]) for b in columns if b != a}} for a in columns}}
{{"rows": len(rows), "correlation": matrix}} if len(columns) > 1 \
    else "correlation needs at least two numeric columns" if columns else {_NO_NUMBERS}
"""

_ANALYSES = {"summary": _TABLE + _SUMMARY, "trend": _TABLE + _TREND, "correlation": _TABLE + _CORRELATION}
"""Source code that runs in the sandbox because `data` is untrusted; a result that is a string is an error."""
