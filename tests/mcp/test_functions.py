"""Plain Python functions as tools: schemas, errors, time limits, and recording, as for any server."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from tests.mcp.leaks import nothing_leaks
from tests.mcp.leases import ask
from turnwise.config import Recipe
from turnwise.mcp.calls.cassette import Cassette, Mode
from turnwise.mcp.functions import SERVER, function_server
from turnwise.mcp.pool import Pool
from turnwise.mcp.serve import Unavailable
from turnwise.mcp.spec import Isolation, ServerOptions
from turnwise.setup.servers import servers_of
from turnwise.types import Cause, ToolCall, ToolResult

RELEASE = threading.Event()
QUICK = ServerOptions(timeout_seconds=0.3, num_retries=0)


@pytest.fixture(autouse=True)
def _released() -> Iterator[None]:
    """No thread of a hanging function outlives its test."""
    RELEASE.clear()
    yield
    RELEASE.set()


def convert(
    amount: Annotated[float, Field(description="How much.")],
    to: Literal["EUR", "USD"] = "EUR",
    title: str | None = None,
) -> dict[str, Any]:
    """Convert an amount.

    The rate is fixed.
    """
    return {"amount": amount * 2, "to": to, "title": title}


async def later(text: str) -> str:
    return text.upper()


def hang() -> str:
    RELEASE.wait(30)
    return "late"


def broken(name: str) -> str:
    raise KeyError(name)


def offline() -> str:
    raise Unavailable("the service is down")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"m:{function.__name__}": function for function in (convert, later, hang, broken, offline)
}


async def call(tool: str, cassette: Cassette | None = None, **arguments: Any) -> ToolResult:
    async with Pool([function_server(FUNCTIONS, QUICK)], cassette=cassette) as pool:
        assert await pool.connect() == {}
        async with pool.lease([SERVER], "episode") as toolbox:
            [result] = await toolbox.call([ToolCall("1", tool, arguments)])
            return result


async def test_the_schema_comes_from_type_hints_and_the_description_from_the_docstring() -> None:
    async with Pool([function_server(FUNCTIONS)]) as pool:
        await pool.connect()
        tool = next(tool for tool in pool.tools if tool.name == "convert")
        assert tool.description == "Convert an amount.\n\nThe rate is fixed."
        assert tool.input_schema["properties"] == {
            "amount": {"type": "number", "description": "How much."},
            "to": {"type": "string", "enum": ["EUR", "USD"], "default": "EUR"},
            "title": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        }
        assert tool.input_schema["required"] == ["amount"]


async def test_the_user_gave_them_on_purpose_so_nothing_is_refused() -> None:
    async with Pool([function_server(FUNCTIONS)]) as pool:
        await pool.connect()
        assert pool.isolation(SERVER) is Isolation.SHARED
        assert not pool.exposure(SERVER).is_refused
        assert "whatever your functions change" in str(pool.exposure(SERVER))


async def test_results_are_text_or_json() -> None:
    assert (await call("later", text="abc")).content == "ABC"
    assert (await call("convert", amount=2)).content == '{"amount":4.0,"to":"EUR","title":null}'


@pytest.mark.parametrize(
    ("tool", "arguments", "cause", "words"),
    [
        ("broken", {"name": "x"}, Cause.TOOL_ERROR, "error: KeyError: 'x'"),
        ("convert", {"amount": "many"}, Cause.BAD_ARGUMENTS, "is not of type 'number'"),
        ("offline", {}, Cause.UPSTREAM, "the service is down"),
        ("hang", {}, Cause.TIMEOUT, "no answer within 0.3 s"),
    ],
)
async def test_a_failed_call_is_typed_as_any_server_s(
    tool: str, arguments: dict[str, Any], cause: Cause, words: str
) -> None:
    result = await call(tool, **arguments)
    assert result.cause is cause
    assert words in result.content


async def test_a_function_that_hangs_does_not_hold_up_the_others() -> None:
    async with Pool([function_server(FUNCTIONS, ServerOptions(timeout_seconds=20))]) as pool:
        await pool.connect()
        async with pool.lease([SERVER], "slow") as slow, pool.lease([SERVER], "quick") as quick:
            waiting = asyncio.create_task(slow.call([ToolCall("1", "hang", {})]))
            await asyncio.sleep(0)
            [result] = await quick.call([ToolCall("1", "later", {"text": "a"})])
            assert result.content == "A"
            assert not waiting.done()
            RELEASE.set()
            [late] = await waiting
            assert late.content == "late"


async def test_calls_are_recorded_and_replayed(tmp_path: Path) -> None:
    recorded = await call("convert", Cassette(tmp_path / "calls.jsonl", Mode.RECORD), amount=3)
    replayed = await call_replayed(tmp_path / "calls.jsonl", amount=3)
    assert replayed.is_replayed
    assert replayed.content == recorded.content


async def call_replayed(path: Path, **arguments: Any) -> ToolResult:
    async with Pool([], cassette=Cassette(path, Mode.REPLAY)) as pool:
        async with pool.lease([SERVER], "episode") as toolbox:
            [result] = await toolbox.call([ToolCall("1", "convert", arguments)])
            return result


def unhinted(value: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(value)


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        ({"python:lambda": lambda value: value}, "'python:lambda': a lambda tells the model neither"),
        ({"a:convert": convert, "b:convert": convert}, "two functions are called 'convert'"),
        ({"m:unhinted": unhinted}, "'m:unhinted': its parameters cannot be described"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused(
    functions: dict[str, Callable[..., Any]], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        function_server(functions)


async def test_injected_faults_hold_for_functions_too() -> None:
    options = ServerOptions(fault_rate=1.0, num_retries=0, breaker_failures=100)
    async with Pool([function_server(FUNCTIONS, options)]) as pool:
        await pool.connect()
        async with pool.lease([SERVER], "episode") as toolbox:
            [result] = await toolbox.call([ToolCall("1", "later", {"text": "a"})])
    assert result.content.startswith("error: injected fault")


async def test_the_recipe_sets_the_time_limit_of_a_call() -> None:
    tools = {"functions": ["python:hang"], "function_timeout_seconds": 0.2}
    servers = servers_of(Recipe.model_validate({"tools": tools}), given={"python:hang": hang})
    async with Pool(servers.specs) as pool:
        await pool.connect()
        async with pool.lease([SERVER], "episode") as toolbox:
            [result] = await toolbox.call([ToolCall("1", "hang", {})])
    assert result.cause is Cause.TIMEOUT
    assert "no answer within 0.2 s" in result.content


def spin(count: int) -> int:
    """One call into C that does not return for a minute."""
    return sum(range(count))


def own_process() -> int:
    return os.getpid()


MOVED = {
    f"{__name__}:{function.__name__}": function for function in (spin, own_process, broken, offline, later)
}


async def test_functions_that_can_be_imported_run_in_a_process_and_cannot_stop_the_event_loop() -> None:
    async with nothing_leaks(), Pool([function_server(MOVED, ServerOptions(timeout_seconds=1.0))]) as pool:
        await pool.connect()
        async with pool.lease([SERVER], "e") as toolbox:
            before = await ask(toolbox, "own_process")
            assert int(before.content) != os.getpid()
            started = time.monotonic()
            ticks = asyncio.create_task(_ticks())
            slow = await ask(toolbox, "spin", count=10**11)
            longest = await ticks
            assert (slow.cause, time.monotonic() - started < 30) == (Cause.TIMEOUT, True)
            assert longest < 1.0, "the event loop stood still"
            async with asyncio.timeout(30):
                while (after := await ask(toolbox, "own_process")).cause is not Cause.OK:
                    await asyncio.sleep(0.1)
            assert after.content != before.content, "the blocked process was not replaced"


async def _ticks() -> float:
    """The longest pause of the event loop within a second."""
    times = [time.monotonic()]
    while times[-1] < times[0] + 1.0:
        await asyncio.sleep(0.01)
        times.append(time.monotonic())
    return max(after - before for before, after in pairwise(times))


async def test_errors_of_functions_in_their_process_are_those_of_functions_in_this_one() -> None:
    async with Pool([function_server(MOVED)]) as pool, pool.lease([SERVER], "e") as toolbox:
        assert (await ask(toolbox, "broken", name="x")).content == "error: KeyError: 'x'"
        assert (await ask(toolbox, "offline")).cause is Cause.UPSTREAM
        assert (await ask(toolbox, "later", text="half \ud83d")).cause is Cause.BAD_ARGUMENTS
        assert (await ask(toolbox, "later", text="é")).content == "É"


async def test_a_function_that_is_given_as_an_object_stays_in_this_process() -> None:
    def where() -> int:
        """The process that it runs in."""
        return os.getpid()

    async with Pool([function_server({"python:where": where})]) as pool:
        async with pool.lease([SERVER], "e") as toolbox:
            assert (await ask(toolbox, "where")).content == str(os.getpid())
