"""What a run's tasks asked and expected when it began: a resumed run says if that has changed since."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from turnwise.system.files.atomic_write import write_json
from turnwise.system.files.regular_files import MAX_FILE_BYTES, Damaged, read_table
from turnwise.tasks.rows import row_of
from turnwise.types import Task

FILE = "tasks.json"
_MAX_NAMED = 3

Digests = Mapping[str, str]
"""By task id."""


def keep_digests(folder: Path, tasks: Mapping[str, Sequence[Task]]) -> list[str]:
    """Write the digests of the tasks of each split; return a line for each split that has changed.

    A folder without digests is that of a run that begins.
    """
    now = {split: _digests(found) for split, found in tasks.items()}
    try:
        before = read_table(folder / FILE, MAX_FILE_BYTES)
    except FileNotFoundError:
        before = {}
    except Damaged as error:
        write_json(folder / FILE, now)
        return [f"whether tasks have changed is unknown: {error}"]
    if before != now:
        write_json(folder / FILE, now)
    differences = {
        split: _difference(known, now[split])
        for split, known in before.items()
        if split in now and isinstance(known, dict)
    }
    return [
        f"the {split} tasks are not those of the run so far: {difference}"
        for split, difference in differences.items()
        if difference
    ]


def _digests(tasks: Sequence[Task]) -> Digests:
    """Digests of everything but the demonstrations, which decide nothing."""
    rows = {task.id: json.dumps(row_of(replace(task, demonstration=())), sort_keys=True) for task in tasks}
    return {name: hashlib.sha256(row.encode()).hexdigest()[:16] for name, row in rows.items()}


def _difference(before: Digests, now: Digests) -> str:
    changed = [name for name in now if name in before and now[name] != before[name]]
    parts = []
    if changed:
        names = ", ".join(changed[:_MAX_NAMED]) + (", …" if len(changed) > _MAX_NAMED else "")
        parts.append(f"{len(changed)} of {len(now)} have another question or truth ({names})")
    if num_lost := len(before.keys() - now.keys()):
        parts.append(f"{num_lost} are gone")
    if num_new := len(now.keys() - before.keys()):
        parts.append(f"{num_new} are new")
    return ", ".join(parts)
