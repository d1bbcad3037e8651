"""Runs' evaluations by family and difficulty, and the difference of two."""

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from turnwise.dashboard.headings import of_change
from turnwise.rollout.measure.report import EvaluationReport, figures, read_report
from turnwise.rollout.measure.statistics import paired_difference
from turnwise.rollout.measure.summary import rates_by_task
from turnwise.run.answer import Change
from turnwise.system.files.regular_files import Damaged, names_in

MAX_WORSE = 50
"""The most tasks that are listed because their success fell."""


def evaluations(run: Path) -> list[dict[str, Any]]:
    """The figures of every evaluation, oldest first; an unreadable one has only `name` and `error`."""
    return [_figures(path) for path in _files(run)]


def comparison(run: Path, before: str, after: str) -> dict[str, Any]:
    """The difference after − before over the tasks in both evaluations, overall and by family.

    LookupError if one of the two does not exist.
    """
    paths = {path.stem: path for path in _files(run)}
    if before not in paths or after not in paths:
        raise LookupError(f"no evaluations {before!r} and {after!r}")
    marks = [(path, path.lstat().st_mtime_ns) for path in (paths[before], paths[after])]
    found = _compared(*marks[0], *marks[1])
    first, last = (_summaries(*mark) for mark in marks)
    return {**found, "heading": of_change(change_of(first, last, found))}


def paired(one: Path, other: Path) -> dict[str, Any]:
    """The difference other − one of two runs' held-out evaluations after training, like `comparison`.

    A run without such an evaluation, or with an unreadable one, makes it an `error` that names the run.
    """
    marks = []
    for run in (one, other):
        report = run / "evaluations" / "after.json"
        try:
            marks.append((report, report.lstat().st_mtime_ns))
            _read(*marks[-1])
        except FileNotFoundError:
            return {"error": f"{run.name} has no held-out evaluation after training"}
        except (ValueError, OSError, ArithmeticError) as error:
            reason = error.reason if isinstance(error, Damaged) else type(error).__name__
            return {"error": f"the held-out evaluation of {run.name} cannot be read: {reason}"}
    return _compared(*marks[0], *marks[1])


def gap(found: Mapping[str, Any]) -> Change | None:
    """How far the other run of `paired` is below the first; None if they have no task in common."""
    change = found.get("all")
    if not change:
        return None
    low, high = change["high"], change["low"]
    return Change(0.0, -change["value"], None if low is None else -low, None if high is None else -high)


def change_of(before: Mapping[str, Any], after: Mapping[str, Any], found: Mapping[str, Any]) -> Change | None:
    """The change between two evaluations, from their figures and their `comparison`."""
    change = found["all"]
    if not change:
        return None
    first, last = (side["all"]["success"]["value"] for side in (before, after))
    return Change(first, last, change["low"], change["high"])


def _files(run: Path) -> list[Path]:
    """The report files in order: `before`, then by step, then `after`."""
    order = {"before": 0, "after": 2}
    try:
        names = [name for name in names_in(run / "evaluations") if name.endswith(".json")]
    except (FileNotFoundError, Damaged):  # damage is reported in RunFacts.problems
        return []
    reports = [run / "evaluations" / name for name in names]
    return sorted(reports, key=lambda path: (order.get(path.stem, 1), path.stem))


def _figures(path: Path) -> dict[str, Any]:
    try:
        changed = path.lstat().st_mtime_ns
        report, summaries = _read(path, changed), _summaries(path, changed)
    except Damaged as error:
        return {"name": path.stem, "error": f"not readable as an evaluation: {path.name} {error.reason}"}
    except (ValueError, OSError, ArithmeticError) as error:
        return {"name": path.stem, "error": f"not readable as an evaluation: {type(error).__name__}"}
    return {
        "name": path.stem,
        "model": report.model,
        "num_samples": report.num_samples,
        "temperature": report.temperature,
        "seconds": report.seconds,
        "num_tasks_asked": report.num_tasks_asked,
        "num_tasks_missing": report.num_tasks_missing,
        "num_lost": report.num_lost,
        **summaries,
    }


@functools.lru_cache(maxsize=64)
def _read(path: Path, _changed: int) -> EvaluationReport:
    return read_report(path)


@functools.lru_cache(maxsize=64)
def _summaries(path: Path, changed: int) -> dict[str, Any]:
    # through JSON: the k of pass@k become strings, the only keys that JSON objects have
    summary: dict[str, Any] = json.loads(json.dumps(figures(_read(path, changed))))
    return summary


@functools.lru_cache(maxsize=64)
def _compared(before: Path, before_changed: int, after: Path, after_changed: int) -> dict[str, Any]:
    reports = (_read(before, before_changed), _read(after, after_changed))
    rates = [rates_by_task(report.episodes) for report in reports]
    both = sorted(rates[0].keys() & rates[1].keys())
    if not both:
        return {"num_tasks": 0, "all": None, "families": {}, "worse": [], "num_worse": 0}
    families = {episode.task_id: episode.family for episode in reports[1].episodes}

    def change(tasks: list[str]) -> dict[str, Any]:
        one, other = ({task: side[task] for task in tasks} for side in rates)
        return {**asdict(paired_difference(one, other, num_resamples=2_000)), "num_tasks": len(tasks)}

    fallen = sorted(
        (task for task in both if rates[1][task] < rates[0][task]),
        key=lambda task: (rates[1][task] - rates[0][task], task),
    )
    return {
        "num_worse": len(fallen),
        "worse": [
            {"task": task, "family": families[task], "before": rates[0][task], "after": rates[1][task]}
            for task in fallen[:MAX_WORSE]
        ],
        "num_tasks": len(both),
        "num_left_out": len(rates[0]) + len(rates[1]) - 2 * len(both),
        "all": change(both),
        "families": {
            family or "-": change([task for task in both if families[task] == family])
            for family in sorted({families[task] for task in both})
        },
    }
