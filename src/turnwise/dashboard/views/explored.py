"""Explorations, from the report.json next to their task files: tools, reasons, rejected drafts and tasks.

Anybody may have written the file, so only fields of the right kind are read, and only so much of each text.
"""

import functools
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnwise.dashboard.headings import of_exploration
from turnwise.dashboard.index.short_text import shortened
from turnwise.dashboard.runs import REPORT, Runs
from turnwise.dashboard.views.task_files import task_file, task_paths
from turnwise.dashboard.views.task_list import MAX_TEXT_CHARS, demonstration
from turnwise.explore.report.report_json import exploration_summary
from turnwise.system.files.regular_files import MAX_FILE_BYTES, read_table
from turnwise.tasks.rows import row_of

MAX_SERVERS = 50
MAX_TOOLS = 500
MAX_REASONS = 100
MAX_TASKS = 500
_SPLITS = ("train", "validation", "test")
_LEVELS = {"hard": 0, "medium": 1, "easy": 2}
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


class _FoundTask(BaseModel):
    model_config = _LENIENT

    id: str
    question: str = ""
    answer: str = ""
    family: str = ""
    difficulty: str = ""
    split: str = ""
    tools: tuple[str, ...] = ()


class _Found(BaseModel):
    model_config = _LENIENT

    servers: tuple[_FoundServer, ...] = ()
    tasks: tuple[_FoundTask, ...] = ()
    rejections: dict[str, _Count] = {}
    rejected_examples: dict[str, str] = {}
    held_out: tuple[str, ...] = ()


def explorations(runs: Runs) -> list[dict[str, Any]]:
    """The folders of explored tasks: those under the paths, and those whose tasks a run's recipe names."""
    folders = dict(runs.explored)
    known = {os.path.realpath(folder) for folder in folders.values()}
    for run in runs:
        for split, path in task_paths(run).items():
            folder = os.path.realpath(path.parent)
            if folder not in known and (Path(folder) / REPORT).is_file():
                known.add(folder)
                folders[f"{run.name} {split}"] = Path(folder)
    found = [
        {"name": name, "folder": folder.name, "figures": _figures(folder)} for name, folder in folders.items()
    ]
    return [each for each in found if each["figures"]]


def exploration(runs: Runs, name: str) -> dict[str, Any]:
    """One exploration. LookupError if there is none of this name, or if its report cannot be read."""
    path = _folder(runs, name) / REPORT
    try:
        return _read(path, path.lstat().st_mtime_ns)
    except (OSError, ValueError) as error:
        raise LookupError(f"no readable report of {name[:40]!r}: {type(error).__name__}") from None


def plan(runs: Runs, name: str, split: str, task: str) -> dict[str, Any]:
    """The plan that proves a task, from the exploration's task file; `missing` says why there is none."""
    if split not in _SPLITS:
        raise LookupError(f"no {split[:20]!r} tasks")
    file = task_file(split, _folder(runs, name) / f"{split}.jsonl")
    chosen = next((each for each in file.tasks if each.id == task), None)
    if chosen is None:
        return {"demonstration": [], "truth": "", "missing": f"{file.path.name} does not have the task"}
    truth = json.dumps(row_of(chosen)["truth"], indent=1, ensure_ascii=False, default=str)
    return {
        "demonstration": demonstration(chosen.demonstration),
        "truth": _cut(truth, MAX_TEXT_CHARS),
        "missing": "",
    }


def _folder(runs: Runs, name: str) -> Path:
    """The folder of an exploration, by its name in the list or by a run and the split it explored."""
    if name in runs.explored:
        return runs.explored[name]
    run, _, split = name.rpartition(" ")
    path = task_paths(runs[run]).get(split)
    if path is None:
        raise LookupError(f"no exploration {name[:40]!r}")
    return path.parent


def _figures(folder: Path) -> dict[str, Any] | None:
    try:
        found = exploration_summary(folder / REPORT)
    except (OSError, ValueError):
        return None
    return None if found is None else asdict(found)


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
    tasks = sorted(report.tasks, key=lambda task: (_LEVELS.get(task.difficulty, 3), -len(task.tools)))
    used = sum(tool.num_tasks > 0 for _, tool in tools)
    return {
        "heading": of_exploration(
            figures.num_tasks if figures else len(tasks),
            figures.num_tools_in_tasks if figures else used,
            figures.num_tools if figures else len(tools),
            was_interrupted=bool(figures and figures.was_interrupted),
        ),
        "figures": None if figures is None else asdict(figures),
        "num_listed": len(tasks),
        "tasks": [_task(task) for task in tasks[:MAX_TASKS]],
        "servers": [
            {
                "server": _cut(server.server, _MAX_NAME_CHARS),
                "num_calls": server.num_calls,
                "why_not": _cut(server.why_not),
            }
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


def _task(task: _FoundTask) -> dict[str, Any]:
    """The task, hardest first in the list, with names and texts of limited length."""
    names = ("id", "answer", "family", "difficulty", "split")
    return {
        **{name: _cut(getattr(task, name), _MAX_NAME_CHARS) for name in names},
        "question": _cut(task.question, 300),
        "tools": [_cut(tool, _MAX_NAME_CHARS) for tool in task.tools[:60]],
    }


def _cut(text: str, most: int = _MAX_TEXT_CHARS) -> str:
    return shortened(text, most)
