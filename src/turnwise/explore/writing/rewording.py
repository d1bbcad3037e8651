"""Whether a reworded question still asks the same: its values are all there, and its answer is not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from turnwise.explore.programs.program import flat
from turnwise.explore.verdicts.answers import is_fit_answer
from turnwise.explore.wording.questions import DONE, FORMS
from turnwise.types import Task

_MAX_GROWTH = 3
_MAX_MORE_CHARS = 200

_SENTENCES = (DONE, *(sentence for sentences in FORMS.values() for sentence in sentences))
_FORM = re.compile(rf"\s(?={'|'.join(map(re.escape, _SENTENCES))})")
_ASKS_FORM = re.compile(r"\b(?:answer|reply|respond) (?:only )?with\b|\bgive (?:me )?only\b", re.IGNORECASE)
_QUOTED = re.compile(r"“([^”]*)”|`([^`]*)`")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")


@dataclass(frozen=True, slots=True)
class Question:
    """A question in two parts: only the first one is reworded."""

    body: str
    rest: str
    """The form of the answer, with the space before it."""


def question_of(task: Task) -> Question:
    """Return the parts of a task's question."""
    text = task.prompt[-1].content
    forms = list(_FORM.finditer(text))
    place = forms[-1].start() if forms else len(text)
    return Question(text[:place], text[place:])


def why_refused(body: str, question: Question, task: Task, said_before: str = "") -> str:
    """Return why a rewording is not kept; empty if it may be tried. A follow-up need not repeat values."""
    if not body or "\n" in body or not body.isprintable():
        return "the rewording is not one line"
    max_chars = _MAX_GROWTH * len(question.body) + _MAX_MORE_CHARS
    tools = {call.name for turn in task.demonstration for call in turn.calls}
    known = f"{said_before} {body}"
    faults = (
        (body == question.body, "the rewording is the same"),
        (len(body) > max_chars, "the rewording is too long"),
        (any(value not in known for value in values(question.body, task)), "a value is missing"),
        (_ASKS_FORM.search(body) is not None, "the rewording adds a form of the answer"),
        (
            any(name in body and name not in question.body for name in tools),
            "the rewording names a tool",
        ),
        (_tells_answer(body, question, task), "the rewording states the answer"),
    )
    return next((why for is_fault, why in faults if is_fault), "")


def values(text: str, task: Task) -> Iterator[str]:
    """Yield the quoted texts, the numbers and the arguments of calls that a question states."""
    yield from (found[1] or found[2] or "" for found in _QUOTED.finditer(text))
    yield from (found[0] for found in _NUMBER.finditer(text))
    for turn in task.demonstration:
        for call in turn.calls:
            yield from (str(value) for value in flat(call.arguments).values() if str(value) in text)


def _tells_answer(body: str, question: Question, task: Task) -> bool:
    answer = task.truth.answer
    if answer is None or not isinstance(answer.value, str | int | float):
        return False
    in_reworded = is_fit_answer(answer.value, f"{body}{question.rest}")
    return bool(in_reworded) and not is_fit_answer(answer.value, f"{question.body}{question.rest}")
