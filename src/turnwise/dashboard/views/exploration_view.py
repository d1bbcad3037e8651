"""What an exploration found, from the report.json next to its task files: tools, reasons and rejected drafts.

Anybody may have written the file, so only fields of the right kind are read, and only so much of each text.
"""

import functools
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnwise.dashboard.index.short_text import shortened
from turnwise.dashboard.runs import ListedRun
from turnwise.dashboard.views.task_files import task_files
from turnwise.explore.report_json import exploration_summary
from turnwise.system.files.regular_files import MAX_FILE_BYTES, read_table

MAX_SERVERS = 50
MAX_TOOLS = 500
MAX_REASONS = 100
_MAX_NAME_CHARS = 100
_MAX_TEXT_CHARS = 1_000

_LENIENT = ConfigDict(extra="ignore", frozen=True)
_Count = Annotated[int, Field(ge=0, le=2**53)]


class _FoundTool(BaseModel):
    model_config = _LENIENT

    name: str
    reach: str = ""
    reason: str = ""
    num_calls: _Count = 0
    num_answers: _Count = 0
    num_tasks: _Count = 0


class _FoundServer(BaseModel):
    model_config = _LENIENT

    server: str
    num_calls: _Count = 0
    why_not: str = ""
    tools: tuple[_FoundTool, ...] = ()


class _Found(BaseModel):
    model_config = _LENIENT

    servers: tuple[_FoundServer, ...] = ()
    rejections: dict[str, _Count] = {}
    rejected_examples: dict[str, str] = {}
    held_out: tuple[str, ...] = ()


def exploration(run: ListedRun, split: str) -> dict[str, Any]:
    """The exploration that wrote the split's task file. LookupError if no readable report.json is there."""
    file = next((file for file in task_files(run) if file.split == split), None)
    if file is None or file.problem:
        raise LookupError(f"no {split[:20]!r} tasks")
    path = file.path.with_name("report.json")
    try:
        return _read(path, path.lstat().st_mtime_ns)
    except (OSError, ValueError) as error:
        raise LookupError(f"no readable report of the {split!r} tasks: {type(error).__name__}") from None


@functools.lru_cache(maxsize=12)
def _read(path: Path, _changed: int) -> dict[str, Any]:
    figures = exploration_summary(path)
    try:
        report = _Found.model_validate(read_table(path, MAX_FILE_BYTES))
    except ValidationError:
        report = _Found()  # the report of another version: its figures are shown
    tools = [(server.server, tool) for server in report.servers for tool in server.tools]
    tools.sort(key=lambda pair: (pair[1].num_tasks > 0, pair[1].num_answers > 0))  # what failed comes first
    reasons = sorted(report.rejections.items(), key=lambda item: -item[1])
    return {
        "figures": None if figures is None else asdict(figures),
        "servers": [
            {"server": _cut(server.server, _MAX_NAME_CHARS), "why_not": _cut(server.why_not)}
            for server in report.servers[:MAX_SERVERS]
        ],
        "num_tools": len(tools),
        "tools": [_tool(server, tool) for server, tool in tools[:MAX_TOOLS]],
        "num_reasons": len(reasons),
        "rejections": [
            {"reason": _cut(reason), "num": num, "example": _cut(report.rejected_examples.get(reason, ""))}
            for reason, num in reasons[:MAX_REASONS]
        ],
        "num_held_out": len(report.held_out),
    }


def _tool(server: str, tool: _FoundTool) -> dict[str, Any]:
    return {
        **tool.model_dump(),
        "server": _cut(server, _MAX_NAME_CHARS),
        "name": _cut(tool.name, _MAX_NAME_CHARS),
        "reach": _cut(tool.reach, _MAX_NAME_CHARS),
        "reason": _cut(tool.reason),
    }


def _cut(text: str, most: int = _MAX_TEXT_CHARS) -> str:
    return shortened(text, most)
