"""Names and descriptions tell tools that read from tools that may change something."""

from typing import Any

import pytest

from turnwise.explore.first.tool_verbs import is_deprecated, presumes_reading
from turnwise.types import Tool

TEXT = {"type": "string"}
NUMBER = {"type": "number"}


def tool(name: str, description: str = "", **properties: Any) -> Tool:
    return Tool(name, description, {"properties": properties}, "s", name)


@pytest.mark.parametrize(
    ("name", "description", "parameters"),
    [
        ("get_auto_save_status", "", {"id": TEXT}),
        ("wiki_link", "Read an Obsidian wiki link.", {"document": TEXT}),
        ("days_in_month", "Returns the number of days.", {"date": TEXT}),
        ("ledger_query", "Execute a query against the ledger.", {"query": TEXT}),
        ("add_numbers", "Add two numbers.", {"a": NUMBER, "b": NUMBER}),
        ("format_date", "Format a date.", {"date": TEXT}),
    ],
)
def test_readers(name: str, description: str, parameters: dict[str, Any]) -> None:
    assert presumes_reading(tool(name, description, **parameters))


@pytest.mark.parametrize(
    ("name", "description", "parameters"),
    [
        ("git_add", "Adds file contents to the staging area", {"repo_path": TEXT}),
        ("add_note", "Add a note.", {"text": TEXT}),
        ("format_table", "Format a table with borders.", {"filename": TEXT}),
        ("search_and_replace", "Search for text and replace it.", {"filename": TEXT}),
        ("git_commit", "Records changes to the repository", {"message": TEXT}),
    ],
)
def test_writers(name: str, description: str, parameters: dict[str, Any]) -> None:
    assert not presumes_reading(tool(name, description, **parameters))


def test_only_tools_that_are_deprecated_themselves_are_left_out() -> None:
    assert is_deprecated(tool("read_file", "Read a file. DEPRECATED: use read_text_file."))
    assert is_deprecated(tool("old", "This tool is deprecated."))
    assert not is_deprecated(tool("find", "Find deprecated functions in a module."))
