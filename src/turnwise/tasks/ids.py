"""Give tasks without an id one that is derived from their content."""

import hashlib
import json
from dataclasses import replace

from turnwise.tasks.rows import row_of
from turnwise.types import Task

_NUM_DIGITS = 12
"""Of a SHA-256 in hexadecimal: two of a million different tasks share an id with a probability of 0.2 %."""


class DerivedIds:
    """The ids derived for the tasks of one file; a task that is there twice gets a number."""

    def __init__(self) -> None:
        self._num_same: dict[str, int] = {}

    def identify(self, task: Task) -> Task:
        """Return the task with an id; one that has an id is unchanged."""
        if task.id:
            return task
        content = json.dumps(row_of(task), sort_keys=True, ensure_ascii=False)
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:_NUM_DIGITS]
        number = self._num_same.get(digest, 0) + 1
        self._num_same[digest] = number
        return replace(task, id=f"task-{digest}" if number == 1 else f"task-{digest}-{number}")
