"""How a run goes: whether training changed anything, how long it will still take, and what happened when."""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from turnwise.dashboard.headings import of_comparison
from turnwise.dashboard.index.index import Index
from turnwise.dashboard.runs import ListedRun
from turnwise.dashboard.views.evaluations import evaluations, gap, paired
from turnwise.dashboard.views.run_row import Scalar, course_of
from turnwise.dashboard.views.series import latest
from turnwise.run.answer import FIRST_STEPS, Change, answer_of, success_change, window_of
from turnwise.run.health.health import CHECKS
from turnwise.system.files.regular_files import Damaged, names_in

_SHOWN = ("success/rate", "reward/mean", "validation/success")
_RECENT = 10
_LEAST = 3
"""Steps from which on the time left is said."""

_STEP = re.compile(r"(?:after-)?step-0*(\d{1,12})")


def standing(run: ListedRun) -> dict[str, Any]:
    """The run's row, and what the views of a single run show of it."""
    facts, index, row = run.facts, run.index, run.row()
    recipe = facts.recipe
    shown = {**row.shown, "state": facts.state, "reason": facts.reason}
    before = next((each for each in evaluations(run.folder) if each["name"] == "before"), {})
    return {
        "name": run.name,
        **shown,
        "answer": asdict(answer_of(course_of(shown, training_change(index)))),
        "problems": [*facts.problems, *index.problems],
        "latest": latest(index, _SHOWN),
        "model": recipe.model.path,
        "algorithm": recipe.algorithm.words,
        "health": {
            name: {"threshold": check.threshold, "wording": check.relation, "metric": check.metric}
            for name, check in CHECKS.items()
            if name not in recipe.health.ignore
        },
        "clip": recipe.algorithm.clip,
        "events": events(run.folder, row.recipe, facts.summary.best_step),
        "checkpoints": _steps_in(run.folder / "checkpoints"),
        **pace(index, recipe.run.num_steps, before.get("seconds")),
    }


def compare(base: ListedRun, others: Sequence[ListedRun]) -> dict[str, Any]:
    """The held-out success of runs: each other one against `base`, and the sentence on all of them."""
    runs = {run.name: run for run in (base, *others)}
    found = {name: paired(base.folder, run.folder) for name, run in runs.items() if run is not base}
    success = {name: run.row().shown["heldout"]["after"] for name, run in runs.items()}
    measured = {name: value for name, value in success.items() if value is not None}
    if not measured:
        return {"heading": of_comparison(None, []), "found": found}
    best = max(measured, key=lambda name: measured[name])
    rest = [run for name, run in runs.items() if name != best]
    gaps = [gap(paired(runs[best].folder, run.folder)) for run in rest]
    return {"heading": of_comparison((best, measured[best]), gaps), "found": found}


def training_change(index: Index) -> Change | None:
    """The change of training success from the first steps to the last; None in a run's first steps."""
    with index.reading() as connection:
        steps = [
            row["step"]
            for row in connection.execute(
                "SELECT DISTINCT step FROM episodes WHERE source = 'train' ORDER BY step"
            )
        ]
        if len(steps) < FIRST_STEPS:
            return None
        width = window_of(len(steps))
        windows = [
            connection.execute(
                "SELECT sum(is_success) AS won, count(is_success) AS num FROM episodes "
                "WHERE source = 'train' AND step BETWEEN ? AND ? AND is_success IS NOT NULL "
                "GROUP BY step, task",
                ends,
            ).fetchall()
            for ends in ((steps[0], steps[width - 1]), (steps[-width], steps[-1]))
        ]
    first, last = (
        [[True] * row["won"] + [False] * (row["num"] - row["won"]) for row in window] for window in windows
    )
    return success_change(first, last)


def pace(index: Index, num_steps: int | None, evaluation_seconds: float | None) -> dict[str, Any]:
    """Seconds of the last steps, oldest first, and of what is left with the evaluation after training."""
    with index.reading() as connection:
        rows = connection.execute(
            "SELECT step, sum(value) AS seconds FROM figures JOIN names ON names.id = figures.name "
            "WHERE names.name LIKE 'time/%\\_seconds' ESCAPE '\\' GROUP BY step ORDER BY step DESC LIMIT ?",
            (_RECENT,),
        ).fetchall()
    seconds = [row["seconds"] for row in reversed(rows) if row["seconds"] is not None]
    num_done = rows[0]["step"] + 1 if rows else 0
    left = None
    if seconds and num_steps is not None and num_done >= _LEAST:
        left = sum(seconds) / len(seconds) * max(0, num_steps - num_done) + (evaluation_seconds or 0.0)
    return {"step_seconds": seconds, "left_seconds": left, "evaluation_seconds": evaluation_seconds}


def events(run: Path, recipe: Mapping[str, Scalar], best_step: int | None) -> list[dict[str, Any]]:
    """What happened at which step: points of the curriculum, resumptions and the checkpoint kept."""
    found = [(step, f"resumed at step {step}") for step in _steps_in(run / "dropped")]
    found += [(step, "curriculum") for step in _curriculum(recipe)]
    if best_step:
        found.append((best_step - 1, "best on validation"))
    return [{"step": step, "words": words} for step, words in sorted(found)]


def _curriculum(recipe: Mapping[str, Scalar]) -> list[int]:
    """The steps of a schedule's points but the first, of a recipe that anybody may have written."""
    if recipe.get("curriculum.kind") != "schedule":
        return []
    try:
        points = json.loads(str(recipe.get("curriculum.points")))
        steps = [point[0] for point in points]
    except (ValueError, TypeError, LookupError, RecursionError):
        return []
    return [step for step in steps[:100] if type(step) is int and step > 0]


def _steps_in(folder: Path) -> list[int]:
    try:
        names = itertools.islice(names_in(folder), 1000)
    except (FileNotFoundError, Damaged):
        return []
    return sorted({int(match[1]) for name in names if (match := _STEP.match(name))})
