"""An error that says that the server's machine ran out of something is recognised."""

import pytest

from turnwise.mcp.exhaustion import is_exhausted


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
def test_errors_that_name_an_exhausted_resource_are_recognised(text: str) -> None:
    assert is_exhausted(text, {"path": "a.txt"}, is_error=True, is_read_only=True)


def test_an_error_sent_as_a_plain_result_is_recognised_by_its_beginning() -> None:
    text = "Database error: database or disk is full"
    assert is_exhausted(text, {}, is_error=False, is_read_only=False)
    assert not is_exhausted(text, {}, is_error=False, is_read_only=True), "it may be a line of a log"
    assert not is_exhausted(f"1 row: {text}", {}, is_error=False, is_read_only=False)
    assert not is_exhausted(text + " x" * 300, {}, is_error=False, is_read_only=False)


def test_words_that_come_from_the_arguments_of_the_call_do_not_count() -> None:
    arguments = {"path": "No space left on device.txt"}
    text = "ENOENT: no such file or directory, open '/data/No space left on device.txt'"
    assert not is_exhausted(text, arguments, is_error=True, is_read_only=True)
