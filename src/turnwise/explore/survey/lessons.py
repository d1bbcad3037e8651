"""What an error teaches: the parameter it blames, the values it offers, the tool it names."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnwise.explore.records import Answer
from turnwise.explore.survey.drawing import quoted_in
from turnwise.explore.survey.parameters import Parameter
from turnwise.explore.survey.refusals import leaves

_MAX_CHARS = 4_000
_MAX_VALUES = 30
_MAX_WORDS = 3
_LIST = re.compile(
    r"[:\[({=]\s*((?:[\"'`]?[\w./@#+ -]{1,60}[\"'`]?\s*(?:[,|]|\bor\b)\s*){1,40}"
    r"[\"'`]?[\w./@#+-]{1,60}[\"'`]?)(?=\s*(?:[\])}.;\n]|$))"
)
_LINE = re.compile(r"(?m)^\s*[-*•]\s+(.{1,80})$")
_SPLIT = re.compile(r"\s*(?:[,|]|\bor\b|\band\b)\s*")


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one error says."""

    blamed: tuple[str, ...]
    """Names of parameters."""
    values: tuple[str, ...]
    """Texts that it offers."""
    tools: tuple[str, ...]
    """Names of other tools."""


def lesson_of(answer: Answer, parameters: Sequence[Parameter], tools: Sequence[str]) -> Lesson:
    """Read an error as far as it can be understood without its words."""
    text = _prose_of(answer.text[:_MAX_CHARS])
    sent = {str(leaf) for leaf in leaves(answer.call.arguments)}
    words = set(re.findall(r"[\w-]+", text))
    named = [one.name for one in parameters if one.name in words]
    repeated = _repeated(text, answer.call.arguments)
    offered = [*quoted_in(text)]
    for group in _LIST.findall(text):
        parts = [part.strip("\"'` ") for part in _SPLIT.split(group)]
        offered += (
            parts if all(len(part.split()) <= _MAX_WORDS and ". " not in part for part in parts) else []
        )
    offered += _LINE.findall(text)
    known = {*sent, *(one.name for one in parameters), *tools, answer.call.tool}
    values = [
        value
        for value in dict.fromkeys(offered)
        if value
        and value not in known
        and len(value) <= 80
        and not any(len(one) > 2 and one in value for one in sent)
    ]
    others = [tool for tool in tools if tool != answer.call.tool and tool in words]
    return Lesson(tuple(dict.fromkeys([*repeated, *named])), tuple(values[:_MAX_VALUES]), tuple(others))


def _prose_of(text: str) -> str:
    """Return the texts of an error that is JSON, without its keys; other errors as they are."""
    start = text.find("{")
    try:
        return "\n".join(str(leaf) for leaf in leaves(json.loads(text[start:]))) if start >= 0 else text
    except ValueError:
        return text


def _repeated(text: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return the arguments whose values stand in a text by themselves, and are no other argument's."""
    named = [(str(leaf), name) for name, value in arguments.items() for leaf in leaves(value)]
    values = [value for value, _ in named]
    found = []
    for value, name in sorted(named, key=lambda one: -len(one[0])):
        if len(value) > 1 and value in text and values.count(value) == 1:
            found.append(name)
            text = text.replace(value, "⟨⟩")
    return [name for name in arguments if name in found]


def missing_in(lesson: Lesson, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parameters that an error names and the call left out."""
    return tuple(name for name in lesson.blamed if name not in arguments)
