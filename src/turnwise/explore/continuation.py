"""What one exploration leaves for the next one: its tasks, what it rejected, and how it split them."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from turnwise.explore.politeness import CALLED_ENOUGH, LIMITED
from turnwise.explore.verdicts.acceptance import HELD_OUT, OTHER_SPLITS, Origin
from turnwise.explore.verdicts.refusal import SERVER_FAILED
from turnwise.explore.verdicts.task_counts import called_tools
from turnwise.system.files.regular_files import MAX_FILE_BYTES, Damaged, read_table
from turnwise.tasks.load import load
from turnwise.tasks.selection import SPLITS
from turnwise.types import Task, Tool

FILE = "exploration.json"
_FORMAT = 1
REMOVED = "it was removed from the task files"
_PASSING = (SERVER_FAILED, LIMITED, CALLED_ENOUGH, OTHER_SPLITS, HELD_OUT)
"""Reasons for a rejection that say nothing about the program."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The content of `exploration.json`."""

    format: int
    seed: int
    tools: Mapping[str, str]
    """A digest of every tool's definition, by the tool's name."""
    held_out: tuple[str, ...]
    origins: Mapping[str, Origin]
    """By the id of an accepted task."""
    rejected: Mapping[str, str]
    """Why a draft was rejected, by the id that its task would have had."""


_PROGRESS = TypeAdapter(Progress)


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier exploration in the same folder."""

    progress: Progress
    tasks: tuple[Task, ...]


def progress_of(
    seed: int,
    tools: Iterable[Tool],
    held_out: Sequence[str],
    origins: Mapping[str, Origin],
    rejected: Mapping[str, str],
) -> Progress:
    """Return the progress, without rejections that may not hold again."""
    lasting = {name: reason for name, reason in rejected.items() if reason not in _PASSING}
    digests = {tool.name: definition_digest(tool) for tool in tools}
    return Progress(_FORMAT, seed, digests, tuple(held_out), dict(origins), lasting)


def definition_digest(tool: Tool) -> str:
    """Return a digest of what a server says about a tool."""
    return hashlib.sha256(json.dumps(asdict(tool), sort_keys=True).encode()).hexdigest()[:16]


def as_json(progress: Progress) -> dict[str, Any]:
    return asdict(progress)


def read_earlier(folder: Path) -> Earlier | None:
    """Read what an exploration left in a folder; None if there was none.

    A task that was removed from the files since then counts as rejected. ValueError if a file is damaged, or
    if a task file has tasks that no exploration wrote: writing the files would lose them.
    """
    path = folder / FILE
    try:
        progress = _PROGRESS.validate_python(read_table(path, MAX_FILE_BYTES), extra="forbid")
    except FileNotFoundError:
        return None
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_input=False)
        where = ".".join(map(str, first["loc"]))
        raise Damaged(path, f"is not the progress of an exploration: {where}: {first['msg']}") from None
    if progress.format != _FORMAT:
        raise Damaged(path, f"has format {progress.format}; this version reads {_FORMAT}")
    files = [folder / f"{split}.jsonl" for split in SPLITS]
    tasks = tuple(task for file in files if file.exists() for task in load(file))
    for task in tasks:
        if task.id not in progress.origins:
            raise ValueError(f"{folder}: task {task.id!r} is not from an exploration; choose another --out")
    left = {task.id for task in tasks}
    removed = {name: REMOVED for name in progress.origins if name not in left}
    rejected = {**progress.rejected, **removed}
    return Earlier(
        Progress(_FORMAT, progress.seed, progress.tools, progress.held_out, progress.origins, rejected), tasks
    )


def is_unchanged(task: Task, before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Return whether all tools that a task uses are defined as they were."""
    used = {*called_tools(task), *(probe.tool for probe in task.truth.probes)}
    return all(name in now and now[name] == before.get(name) for name in used)
