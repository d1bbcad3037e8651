"""What one row of an answer is called, by the tool that lists it: `list_customers` lists customers."""

from dataclasses import replace

from turnwise.explore.first.document import Document
from turnwise.explore.first.wording.call_phrase import (
    COLLECTIVES,
    CONTAINERS,
    LIST_VERBS,
    NOT_ROWS,
    SEARCH_VERBS,
    rows_of,
)
from turnwise.explore.first.wording.names import is_plural, singular
from turnwise.explore.first.wording.tool_prose import prose_of
from turnwise.types import Tool

_UNNAMED = (
    *("result", "results", "data", "rows", "items", "entries", "list", "output", "values", "response"),
    *("content", "array", "lines", "records", "matches", "hits"),
)
"""Names of tables that do not say what their rows are."""


def row_noun_of(tool: Tool) -> str:
    """Return what the tool lists, in the singular: "customer"; nothing if it does not say."""
    prose = prose_of(tool)
    last = prose.topic.rpartition(" ")[2]
    if (prose.verb == "describe" and last == "table") or last == "schema":
        return "column"
    if not last or last in NOT_ROWS or singular(last) in CONTAINERS - {"table", "branch", "project"}:
        return ""
    is_several = is_plural(prose.topic) or last in COLLECTIVES
    if prose.verb in LIST_VERBS | SEARCH_VERBS or (prose.verb in ("get", "fetch", "show", "") and is_several):
        return singular(rows_of(prose.topic))
    return ""


def with_row_noun(document: Document, noun: str) -> Document:
    """Return the document with its only table named, if the table itself does not say what its rows are."""
    if not noun or len(document.tables) != 1:
        return document
    [table] = document.tables
    is_unnamed = not table.path or (len(table.path) == 1 and table.name.lower() in _UNNAMED)
    return replace(document, tables=(replace(table, noun=noun),)) if is_unnamed else document
