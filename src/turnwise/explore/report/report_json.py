"""`report.json`: an exploration as JSON without demonstrations, and the reader of its figures."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from turnwise.explore.exploration import Exploration, ServerFinding, ToolFinding
from turnwise.explore.report.findings import (
    ExplorationFigures,
    answer_text,
    figures_of,
    question_of,
    reach_of,
    reason_of,
    tools_of,
)
from turnwise.system.files.regular_files import MAX_FILE_BYTES, Damaged, read_table
from turnwise.types import Task

_MAX_EXAMPLE_CHARS = 4_000

_FIGURES = TypeAdapter(ExplorationFigures)


def as_json(exploration: Exploration) -> dict[str, Any]:
    """The exploration as JSON values; `figures` is what `exploration_summary` reads."""
    return {
        "figures": asdict(figures_of(exploration)),
        "seed": exploration.seed,
        "servers": [_server(server) for server in exploration.servers],
        "links": [asdict(link) for link in exploration.links],
        "tasks": [_task(task) for task in exploration.tasks],
        "rejections": dict(exploration.rejections),
        "rejected_examples": {
            reason: example[:_MAX_EXAMPLE_CHARS] for reason, example in exploration.rejected_examples.items()
        },
        "held_out": list(exploration.held_out),
        "num_kept": exploration.num_kept,
        "dropped": dict(exploration.dropped),
        "rewordings": dict(exploration.rewordings),
    }


def exploration_summary(path: Path) -> ExplorationFigures | None:
    """The figures of a report.json; None if there is no such file. Damaged (a ValueError) if it is none."""
    try:
        found = read_table(path, MAX_FILE_BYTES).get("figures")
        return _FIGURES.validate_python(found)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        where = ".".join(("figures", *map(str, first["loc"])))
        raise Damaged(path, f"is not the report of an exploration: {where}: {first['msg']}") from None


def _server(server: ServerFinding) -> dict[str, Any]:
    return {
        "server": server.server,
        "num_calls": server.num_calls,
        "seconds": server.seconds,
        "why_not": server.why_not,
        "tools": [_tool(tool) for tool in server.tools],
    }


def _tool(tool: ToolFinding) -> dict[str, Any]:
    return {
        "name": tool.tool.name,
        "server_tool": tool.tool.server_tool,
        "reach": str(reach_of(tool)),
        "reason": reason_of(tool),
        "num_calls": tool.num_calls,
        "num_answers": tool.num_answers,
        "num_tasks": tool.num_tasks,
        "is_reader": tool.is_reader,
        "is_stable": tool.is_stable,
    }


def _task(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "question": question_of(task),
        "answer": answer_text(task),
        "family": task.family,
        "difficulty": str(task.difficulty),
        "split": task.split,
        "tools": list(tools_of(task)),
    }
