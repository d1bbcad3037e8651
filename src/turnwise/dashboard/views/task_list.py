"""The tasks of a run: filtered and paged, and one in full with how often it was played."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from turnwise.dashboard.headings import of_tasks
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.index.short_text import shortened
from turnwise.dashboard.runs import ListedRun
from turnwise.dashboard.views.listing import MAX_PAGE, of_task
from turnwise.dashboard.views.task_files import TaskFile, task_files
from turnwise.explore.report.findings import question_of, tools_of
from turnwise.tasks.rows import row_of
from turnwise.types import DemoTurn, Task

MAX_NAME_CHARS = 200
MAX_QUESTION_CHARS = 300
MAX_SEARCHED_CHARS = 4_000
MAX_TEXT_CHARS = 100_000
MAX_MESSAGES = 20
MAX_CALLS = 60
MAX_CHOICES = 500


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """The conditions that listed tasks must meet; an empty string is no condition."""

    text: str = ""
    """A substring of the task's id or question, in any case."""
    split: str = ""
    family: str = ""
    difficulty: str = ""

    def fits(self, split: str, task: Task) -> bool:
        wanted = (
            (self.split, split),
            (self.family, _cut(task.family, MAX_NAME_CHARS)),
            (self.difficulty, str(task.difficulty)),
        )
        if any(asked and asked != value for asked, value in wanted):
            return False
        searched = f"{task.id}\n{question_of(task)[:MAX_SEARCHED_CHARS]}"
        return not self.text or self.text.lower() in searched.lower()


@dataclass(frozen=True, slots=True)
class PlacedTask:
    """A task, the split that the recipe uses it for, and its place in that file, counted from 0."""

    split: str
    place: int
    task: Task


def tasks(run: ListedRun, wanted: TaskFilter, *, offset: int = 0, limit: int = 50) -> dict[str, Any]:
    """One page of `rows`, the `total` of matching tasks, the filters' choices, and the files."""
    files = task_files(run)
    placed = [PlacedTask(file.split, place, task) for file in files for place, task in enumerate(file.tasks)]
    fitting = [one for one in placed if wanted.fits(one.split, one.task)]
    first = max(offset, 0)
    page = fitting[first : first + min(max(limit, 1), MAX_PAGE)]
    played = _played(run.index, [one.task.id for one in page])
    splits = [(file.split, len(file.tasks)) for file in files]
    return {
        "heading": of_tasks(splits),
        "total": len(fitting),
        "rows": [_row(one, *played.get(one.task.id, (0, None))) for one in page],
        "choices": {
            "split": _choices(one.split for one in placed),
            "family": _choices(_cut(one.task.family, MAX_NAME_CHARS) for one in placed),
            "difficulty": _choices(str(one.task.difficulty) for one in placed),
        },
        "files": _files(files),
    }


def task(run: ListedRun, split: str, place: int) -> dict[str, Any]:
    """One task in full, its long texts cut. LookupError if the split has no task at this place."""
    files = [file for file in task_files(run) if file.split == split]
    if not files or not 0 <= place < len(files[0].tasks):
        raise LookupError(f"no {split[:20]!r} task {place}")
    chosen = files[0].tasks[place]
    row = row_of(chosen)
    asked = {key: row[key] for key in ("truth", "conversation", "user") if key in row}
    truth = json.dumps(asked if len(asked) > 1 else row["truth"], indent=1, ensure_ascii=False, default=str)
    return {
        "id": _cut(chosen.id),
        "split": split,
        "family": _cut(chosen.family, MAX_NAME_CHARS),
        "difficulty": str(chosen.difficulty),
        "servers": list(chosen.servers),
        "tools": None if chosen.tools is None else list(chosen.tools),
        "prompt": [
            {"role": message.role, "content": _cut(message.content)}
            for message in chosen.prompt[:MAX_MESSAGES]
        ],
        "truth": _cut(truth),
        "demonstration": demonstration(chosen.demonstration),
        "num_calls": sum(len(turn.calls) for turn in chosen.demonstration),
        "played": of_task(run.index, chosen.id),
    }


def _row(placed: PlacedTask, num_episodes: int, success: float | None) -> dict[str, Any]:
    task = placed.task
    return {
        "split": placed.split,
        "place": placed.place,
        "id": _cut(task.id, MAX_NAME_CHARS),
        "question": _cut(question_of(task), MAX_QUESTION_CHARS),
        "family": _cut(task.family, MAX_NAME_CHARS),
        "difficulty": str(task.difficulty),
        "tools": [_cut(name, MAX_NAME_CHARS) for name in tools_of(task)[:MAX_CALLS]],
        "num_episodes": num_episodes,
        "success": success,
    }


def _files(files: Sequence[TaskFile]) -> list[dict[str, Any]]:
    """The files; an exploration is named once, with the first file of its folder."""
    shown: list[dict[str, Any]] = []
    folders: set[Path] = set()
    for file in files:
        is_first = not file.problem and file.path.parent not in folders
        exploration = file.exploration if is_first else None
        folders |= {file.path.parent} if exploration is not None else set()
        shown.append(
            {
                "split": file.split,
                "name": file.path.name,
                "num_tasks": len(file.tasks),
                "num_bad": file.num_bad,
                "problem": file.problem,
                "exploration": None if exploration is None else asdict(exploration),
            }
        )
    return shown


def _played(index: Index, names: Sequence[str]) -> dict[str, tuple[int, float | None]]:
    """For every task the number of its episodes and their mean success, evaluations included."""
    marks = ", ".join("?" * len(names))
    with index.reading() as connection:
        rows = connection.execute(
            f"SELECT task, count(*) AS num, avg(is_success) AS success FROM episodes WHERE task IN ({marks}) "  # noqa: S608
            "GROUP BY task",
            names,
        )
        return {row["task"]: (row["num"], row["success"]) for row in rows}


def demonstration(turns: Sequence[DemoTurn]) -> list[dict[str, Any]]:
    """The turns with their calls and results, up to `MAX_CALLS` calls."""
    shown: list[dict[str, Any]] = []
    num_left = MAX_CALLS
    for turn in turns[:MAX_CALLS]:
        calls = [
            {
                "name": call.name,
                "arguments": _cut(json.dumps(call.arguments, ensure_ascii=False, default=str)),
                "result": _cut(turn.results[place].content) if place < len(turn.results) else None,
            }
            for place, call in enumerate(turn.calls[:num_left])
        ]
        num_left -= len(calls)
        shown.append({"user": _cut(turn.user), "text": _cut(turn.text), "calls": calls})
    return shown


def _choices(values: Iterable[str]) -> list[dict[str, Any]]:
    counts = Counter(values)
    return [{"value": value, "num": num} for value, num in list(counts.items())[:MAX_CHOICES]]


def _cut(text: str, most: int = MAX_TEXT_CHARS) -> str:
    return shortened(text, most)
