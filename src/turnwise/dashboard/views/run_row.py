"""A run's row in the list of runs, read from its small files; rows of unchanged folders are cached."""

import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnwise.dashboard.views.run_cost import CostCounter, RunCost
from turnwise.records.ending import read_ending
from turnwise.records.run_facts import RunFacts, heldout_success, read_facts, read_last_figures
from turnwise.records.versions import recipe_file
from turnwise.run.answer import Change, RunCourse
from turnwise.system.files.lock import is_held
from turnwise.system.files.regular_files import Damaged, open_to_read, read_table

_FILES = ("recipe.json", "versions.json", "summary.json", "ended.json", "lock", "tokenizer.json")
_SEEN = (*_FILES, "metrics.jsonl", "evaluations")

_FIGURES_BYTES = 256 << 10
"""The figures are at the end of a report."""

_SUCCESS = re.compile(rb'"figures".{0,400}"all"\s*:\s*\{[^{}]*"success"\s*:\s*(\{[^{}]{0,200}\})', re.DOTALL)
_HEAD_BYTES = 4 << 10
"""The number of tasks is at the beginning of any report."""

_NUM_TASKS = re.compile(rb'"num_tasks_asked": (\d{1,9}),')
_MAX_VALUE = 300
_MAX_TAGS, _MAX_TAG = 16, 40

_Marks = tuple[object, ...]
Scalar = str | int | float | bool | None
"""A value of a recipe; a list is its JSON text."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """What the list of runs shows of one run, and the keys and values of its recipe."""

    shown: dict[str, Any]
    recipe: dict[str, Scalar]

    def values(self, keys: Sequence[str]) -> dict[str, str]:
        """The recipe's values of these keys as text; a key that it does not have is left out."""
        known = {key: self.recipe[key] for key in keys if key in self.recipe}
        return {
            _short(key): _short(value if isinstance(value, str) else json.dumps(value))
            for key, value in known.items()
        }


class RowReader:
    """Reads a run's row again whenever one of its small files has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._counter = CostCounter(folder / "metrics.jsonl")
        self._read: tuple[_Marks, RunRow] | None = None
        self._lock = threading.Lock()

    def row(self) -> RunRow:
        with self._lock:  # the watching thread and requests ask at the same time
            cost = self._counter.cost
            marks = (cost, *self._marks())
            if self._read is None or self._read[0] != marks:
                self._read = (marks, _row(self._folder, cost or RunCost()))
            return self._read[1]

    def count(self, *, deadline: float) -> None:
        """Count the run's cost until the deadline (time.monotonic); only one thread may call this."""
        self._counter.count(deadline=deadline)

    def _marks(self) -> _Marks:
        """What changes with the small files; a released lock is an empty file."""
        marks = {name: _mark(f"{self._folder}/{name}") for name in _SEEN}
        lock = marks["lock"]
        return (lock is not None and lock[1] > 0 and is_held(self._folder / "lock"), *marks.values())


def differing(recipes: Sequence[Mapping[str, Scalar]]) -> list[str]:
    """The keys whose value is not the same in all recipes; an absent key differs from any value."""
    if not recipes:
        return []
    first, *others = recipes
    return sorted({key for other in others for key, _ in first.items() ^ other.items()})


def _mark(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _row(folder: Path, cost: RunCost) -> RunRow:
    facts, recipe = read_facts(folder), _recipe(folder / "recipe.json")
    last = read_last_figures(folder)
    summary, seconds = facts.summary, _seconds(folder, facts, last.time)
    intervals = {name: _interval(folder / "evaluations" / f"{name}.json") for name in ("before", "after")}
    shown = {
        "folder": str(folder),
        "state": facts.state,
        "reason": facts.reason,
        "problems": list(facts.problems),
        "recipe_file": recipe_file(folder / "versions.json"),
        "last_step": last.step,
        "num_steps": facts.recipe.run.num_steps,
        "latest": {"success/rate": last.success},
        "heldout": {name: heldout_success(folder, summary, name) for name in ("before", "after")},
        "intervals": intervals,
        "num_tasks": _num_tasks(folder / "evaluations"),
        "gain": None if summary.heldout_gain is None else summary.heldout_gain.model_dump(),
        "seconds": seconds,
        "tags": _tags(recipe.get("run.tags")),
        "course": cost.course,
        "alarms": sorted(cost.alarms),
        "num_tokens": cost.num_tokens,
        "num_episodes": cost.num_episodes,
        "device": "GPU" if last.has_gpu else "CPU",
        "device_hours": None if seconds is None else seconds / 3600 * _num_devices(recipe),
    }
    return RunRow(shown, recipe)


def course_of(shown: Mapping[str, Any], training: Change | None = None) -> RunCourse:
    """What the sentence on a run is made of, from its row; `training` needs its episodes."""
    held, gain = shown["heldout"], shown["gain"]
    is_measured = gain and None not in (held["before"], held["after"])
    heldout = Change(held["before"], held["after"], gain["low"], gain["high"]) if is_measured else None
    num_done = 0 if shown["last_step"] is None else shown["last_step"] + 1
    return RunCourse(shown["state"], num_done, shown["num_steps"], shown["reason"], heldout, training)


def _interval(report: Path) -> dict[str, float | None] | None:
    """Success on all tasks of an evaluation with its interval; None if the report does not say it."""
    try:
        with open_to_read(report) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _FIGURES_BYTES))
            match = _SUCCESS.search(file.read(_FIGURES_BYTES) or b"")
            found = json.loads(match[1]) if match else {}
    except (OSError, Damaged, ValueError):
        return None
    values = {name: found.get(name) for name in ("value", "low", "high")}
    is_number = type(values["value"]) in (int, float) and all(
        type(value) in (int, float, type(None)) for value in values.values()
    )
    return values if is_number else None


def _tags(found: Scalar) -> list[str]:
    """The recipe's `run.tags`, of a recipe that anybody may have written."""
    try:
        tags = json.loads(found) if isinstance(found, str) else []
    except (ValueError, RecursionError):
        return []
    return [tag[:_MAX_TAG] for tag in tags if isinstance(tag, str)][:_MAX_TAGS] if type(tags) is list else []


def _num_devices(recipe: Mapping[str, Scalar]) -> int:
    """The number of processes, which have one GPU each."""
    count = recipe.get("hardware.num_processes")
    return count if type(count) is int and 0 < count < 1_000_000 else 1


def _recipe(path: Path) -> dict[str, Scalar]:
    """Every key of the stored recipe in dots, with its value; empty if it cannot be read."""
    values: dict[str, Scalar] = {}
    try:
        _flatten("", read_table(path), values)
    except (Damaged, FileNotFoundError, RecursionError):
        return {}
    return values


def _flatten(prefix: str, table: dict[str, Any], found: dict[str, Scalar]) -> None:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and value:
            _flatten(f"{key}.", value, found)
        else:
            found[key] = json.dumps(value) if isinstance(value, list | dict) else value


def _short(text: str) -> str:
    """At most about 300 characters; texts that differ further on stay different."""
    if len(text) <= _MAX_VALUE:
        return text
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{text[:_MAX_VALUE]}… [{len(text):,} characters, digest {digest}]"


def _num_tasks(evaluations: Path) -> int | None:
    """The number of held-out tasks of the evaluation after training, else of the one before."""
    for name in ("after.json", "before.json"):
        try:
            with open_to_read(evaluations / name) as file:
                match = _NUM_TASKS.search(file.read(_HEAD_BYTES) or b"")
        except (OSError, Damaged):
            continue
        if match:
            return int(match[1])
    return None


def _seconds(folder: Path, facts: RunFacts, last_time: float | None) -> float | None:
    """The run's duration: as its summary says, else from its creation to its end or its last figures."""
    if facts.summary.seconds is not None:
        return facts.summary.seconds
    try:
        ending = read_ending(folder / "ended.json")
        began = (folder / "versions.json").lstat().st_mtime
    except (OSError, Damaged):
        return None
    ended = last_time if ending is None else ending.time
    return None if ended is None or ended < began else ended - began
