"""The task files that a run's recipe names, read when the page asks for them and kept until they change.

Anybody may have written a recipe and the files that it names, so only regular files of a limited size are
read, and only rows that are tasks are shown.
"""

import functools
from dataclasses import dataclass
from pathlib import Path

from turnwise.dashboard.runs import ListedRun
from turnwise.explore.report.findings import ExplorationFigures
from turnwise.explore.report.report_json import exploration_summary
from turnwise.system.files.regular_files import Damaged, open_to_read
from turnwise.tasks.load import Problem, read
from turnwise.types import Task

MAX_TASK_FILE_BYTES = 32 << 20
_READABLE = (".json", ".jsonl")


@dataclass(frozen=True, slots=True)
class TaskFile:
    """A task file of a recipe, by the split that the recipe uses it for."""

    split: str
    path: Path
    tasks: tuple[Task, ...] = ()
    num_bad: int = 0
    """Rows that are no valid tasks."""
    problem: str = ""
    """Why the file cannot be shown; empty if it can."""

    @property
    def exploration(self) -> ExplorationFigures | None:
        """The figures of the exploration that wrote the file; None if there is no readable report.json."""
        path = self.path.with_name("report.json")
        try:
            return _exploration(path, path.lstat().st_mtime_ns)
        except (OSError, ValueError):
            return None


def task_paths(run: ListedRun) -> dict[str, Path]:
    """The files that the run's recipe names, by split, in the order train, validation, test."""
    named = run.recipe.tasks
    splits = {"train": named.train, "validation": named.validation, "test": named.test}
    return {split: run.folder / path for split, path in splits.items() if path}


def task_files(run: ListedRun) -> list[TaskFile]:
    return [task_file(split, path) for split, path in task_paths(run).items()]


def task_file(split: str, path: Path) -> TaskFile:
    """The tasks of a file; `problem` says why it has none."""
    if path.suffix.lower() not in _READABLE:
        words = "only JSON and JSONL files are shown; `turnwise tasks convert` writes them"
        return TaskFile(split, path, problem=words)
    try:
        with open_to_read(path, follows_links=True) as file:
            size = file.seek(0, 2)
        if size > MAX_TASK_FILE_BYTES:
            return TaskFile(split, path, problem=f"it has more than {MAX_TASK_FILE_BYTES:,} bytes")
        tasks, num_bad, problem = _tasks(path, path.stat().st_mtime_ns, size)
    except FileNotFoundError:
        return TaskFile(split, path, problem="the file is not there")
    except Damaged as error:
        return TaskFile(split, path, problem=error.reason)
    except ValueError:  # a zero byte in the name
        return TaskFile(split, path, problem="it is not the name of a file")
    return TaskFile(split, path, tasks, num_bad, problem)


@functools.lru_cache(maxsize=12)
def _exploration(path: Path, _changed: int) -> ExplorationFigures | None:
    return exploration_summary(path)


@functools.lru_cache(maxsize=12)
def _tasks(path: Path, _changed: int, _size: int) -> tuple[tuple[Task, ...], int, str]:
    """The tasks, the number of bad rows, and the problem of the file as a whole."""
    items = list(read(path))
    problems = [item for item in items if isinstance(item, Problem)]
    whole = next((problem.message for problem in problems if not problem.row), "")
    tasks = tuple(item.task for item in items if not isinstance(item, Problem))
    return tasks, sum(problem.row > 0 for problem in problems), whole[:200]
