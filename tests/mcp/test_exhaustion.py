"""A server whose machine ran out of something is at fault; an error about the call is the model's."""

import asyncio

import pytest

from tests.mcp.test_faults import do, faulty
from turnwise.mcp.exhaustion import is_exhausted
from turnwise.mcp.pool import Pool
from turnwise.types import Fault, ToolResult


def called(tool: str, **arguments: str) -> ToolResult:
    async def episode() -> ToolResult:
        async with Pool(faulty(isolation="shared")) as pool, pool.lease(["faulty"], "e") as toolbox:
            return await do(toolbox, tool, **arguments)

    return asyncio.run(episode())


def test_a_server_on_a_full_disk_is_infrastructure_and_not_the_models_error() -> None:
    result = called("write", what="full_disk")
    assert result.fault is Fault.INFRA
    assert "No space left on device" in result.content


def test_a_json_rpc_error_about_a_full_disk_is_infrastructure_too() -> None:
    result = called("write", what="rpc_full_disk")
    assert result.fault is Fault.INFRA


def test_a_plain_error_is_still_the_models() -> None:
    assert called("write", what="error").fault is Fault.MODEL


@pytest.mark.parametrize(
    "text",
    [
        "ENOSPC: no space left on device, write",
        "MCP error -32603: EMFILE: too many open files, open '/data/a.txt'",
        "OSError: [Errno 12] Cannot allocate memory",
        "[Errno 122] Disk quota exceeded: '/data/a.txt'",
        "sqlite3.OperationalError: database or disk is full",
    ],
)
def test_errors_that_say_what_ran_out_are_recognised(text: str) -> None:
    assert is_exhausted(text, {"path": "a.txt"}, is_error=True, is_read_only=True)


def test_a_server_that_reports_errors_as_plain_results_is_recognised_by_how_they_begin() -> None:
    text = "Database error: database or disk is full"
    assert is_exhausted(text, {}, is_error=False, is_read_only=False)
    assert not is_exhausted(text, {}, is_error=False, is_read_only=True), "it may have been read from a log"
    assert not is_exhausted(f"1 row: {text}", {}, is_error=False, is_read_only=False)
    assert not is_exhausted(text + " x" * 300, {}, is_error=False, is_read_only=False)


def test_words_of_the_models_own_that_come_back_are_no_sign() -> None:
    arguments = {"path": "No space left on device.txt"}
    text = "ENOENT: no such file or directory, open '/data/No space left on device.txt'"
    assert not is_exhausted(text, arguments, is_error=True, is_read_only=True)
