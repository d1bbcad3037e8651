"""What the accepted tasks have already: their answers and their programs."""

import json
from collections import Counter
from collections.abc import Mapping

from turnwise.explore.programs.program import flat
from turnwise.explore.verdicts.refusal import Refusal
from turnwise.types import Task, ToolCall

_SAME_ANSWER = 2
"""Tasks of one shape and the same tools that may have the same answer."""
_SAME_IN_SHAPE = 4
_SHARE_IN_SHAPE = 0.08
"""Tasks of one shape that may have the same answer: this many, or this share of its tasks."""
_NUM_COMMON = 3


class TaskCounts:
    """Refuses answers that could be guessed because many tasks have them, and tasks that repeat others."""

    def __init__(self) -> None:
        self._of_kind: Counter[tuple[str, ...]] = Counter()
        self._of_shape: dict[str, Counter[str]] = {}
        self._programs: set[str] = set()

    def common(self, shape: str) -> list[str]:
        """Return the most common answers of a shape so far."""
        return [text for text, _ in self._of_shape.get(shape, Counter()).most_common(_NUM_COMMON)]

    def refuse(self, task: Task) -> Refusal | None:
        """Return why the answer or the program is there too often already."""
        if program_key(task) in self._programs:
            return Refusal("another task makes the same calls and has the same answer")
        if task.truth.answer is None:
            return None
        text = task.demonstration[-1].text
        answers = self._of_shape.get(task.family, Counter[str]())
        most = max(_SAME_IN_SHAPE, int(_SHARE_IN_SHAPE * answers.total()))
        if self._of_kind[task.family, *called_tools(task), text] >= _SAME_ANSWER or answers[text] >= most:
            return Refusal("its answer is common among tasks of its kind", text)
        return None

    def add(self, task: Task) -> None:
        """Count an accepted task."""
        self._programs.add(program_key(task))
        if task.truth.answer is not None:
            text = task.demonstration[-1].text
            self._of_kind[task.family, *called_tools(task), text] += 1
            self._of_shape.setdefault(task.family, Counter())[text] += 1


def program_key(task: Task) -> str:
    """Return the same text for programs that differ only in the order of calls or operands, or in a sign."""
    calls = sorted((call.name, *_operands(call.arguments)) for call in _calls_of(task))
    value = None if task.truth.answer is None else task.truth.answer.value
    if len(calls) > 1 and isinstance(value, int | float):
        value = abs(value)  # the difference the other way round
    return json.dumps([calls, value])


def called_tools(task: Task) -> tuple[str, ...]:
    """Return the tools of a task's plan in order, repeated calls included."""
    return tuple(call.name for call in _calls_of(task))


def _calls_of(task: Task) -> list[ToolCall]:
    return [call for turn in task.demonstration for call in turn.calls]


def _operands(arguments: Mapping[str, object]) -> list[str]:
    return sorted(str(leaf) for leaf in flat(arguments).values())
