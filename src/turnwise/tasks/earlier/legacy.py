"""Reads a row of an earlier system (`prompt`, `reward_spec`, `extra_info`, `task_metadata`) as a `Task`.

Missing fields stay empty: no answer is invented, and an unknown tool's server is not guessed.
What only describes the recorded run (scores, numbers of calls, turns, times) is dropped. The tools that it
used are milestones: another way to the answer is as good, so only a tool that the question names is required.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnwise.tasks.earlier.criteria import rubric
from turnwise.tasks.rows import RowError, shown
from turnwise.types import Answer, Difficulty, Message, Task, Truth

MARKS = ("reward_spec", "reward_model", "extra_info", "task_metadata")
"""A row with any of these columns comes from an earlier system."""

_COMPLEXITY = {
    **dict.fromkeys(("easy", "simple", "low", "basic", "trivial"), Difficulty.EASY),
    **dict.fromkeys(("medium", "moderate", "intermediate", "normal"), Difficulty.MEDIUM),
    **dict.fromkeys(("hard", "complex", "difficult", "high", "advanced", "challenging"), Difficulty.HARD),
}

_SPLITS = {"train": "train", "validation": "validation", "val": "validation", "valid": "validation"}
_SPLITS |= {"dev": "validation", "eval": "validation", "test": "test"}


def is_legacy(row: Mapping[str, Any]) -> bool:
    return any(mark in row for mark in MARKS)


def legacy_task(
    row: Mapping[str, Any], *, file_stem: str, number: int, tool_servers: Mapping[str, str]
) -> Task:
    """Convert a row of an earlier system to a task; `tool_servers` maps tools to their servers."""
    spec_name = "reward_model" if "reward_model" in row and "reward_spec" not in row else "reward_spec"
    extra = _object(row.get("extra_info"), "extra_info")
    truth = _object(row.get(spec_name), spec_name).get("ground_truth")
    facts = truth if isinstance(truth, Mapping) else {}
    fields = _Fields(row, extra, facts)
    available = fields.first("tools_available")
    offered = tuple(dict.fromkeys(_names(available, "extra_info.tools_available")))
    prompt = _prompt(
        row["prompt"] if row.get("prompt") is not None else fields.first("question", "original_question")
    )
    asked = _truth(truth, facts, prompt[-1].content, f"{spec_name}.ground_truth")
    split = _split(extra.get("split"), file_stem)
    # Earlier systems restart ids in every file: `a01` in train and `a01` in validation are two tasks.
    own_id = fields.first("task_id") or row.get("id")
    return Task(
        id=f"{split}-{own_id}" if own_id else f"{file_stem}-{number}",
        prompt=prompt,
        servers=_servers((*offered, *asked.required_tools, *asked.milestones), facts, tool_servers),
        truth=asked,
        tools=offered or None,
        difficulty=_difficulty(fields.first("complexity")),
        max_turns=_count(fields.first("max_turns"), "max_turns"),
        family=str(fields.first("category") or ""),
        split=split,
    )


class _Fields:
    """The places of a row where a field may be; the first that has it is used."""

    def __init__(self, row: Mapping[str, Any], extra: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        self._places = (
            extra,
            _object(extra.get("task_metadata"), "extra_info.task_metadata"),
            _object(row.get("task_metadata"), "task_metadata"),
            facts,
        )

    def first(self, *keys: str) -> Any:
        values = (place[key] for key in keys for place in self._places if place.get(key) is not None)
        return next(values, None)


def _truth(truth: Any, facts: Mapping[str, Any], question: str, where: str) -> Truth:
    """Return what can be verified as the truth, and what only a judge can assess as its rubric."""
    criteria = facts.get("success_criteria")
    named = criteria if isinstance(criteria, Mapping) else {}
    played = _object(facts.get("actual_performance"), f"{where}.actual_performance")
    used = [
        name
        for place, prefix in ((facts, where), (named, f"{where}.success_criteria"))
        for key in ("expected_tools", "must_use_tools")
        for name in _names(place.get(key), f"{prefix}.{key}")
    ]
    used += [
        *_names(facts.get("tool_sequence"), f"{where}.tool_sequence"),
        *_names(played.get("extracted_tool_sequence"), f"{where}.actual_performance.extracted_tool_sequence"),
    ]
    return Truth(
        answer=_answer(truth),
        required_tools=tuple(dict.fromkeys(name for name in used if name in question)),
        milestones=tuple(dict.fromkeys(used)),
        rubric=rubric(facts, question),
    )


def _object(value: Any, field: str) -> Mapping[str, Any]:
    """Return the value as a mapping; some Parquet files store these columns as JSON text."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise RowError(field, f"expected an object, got {shown(value)}") from None
    if not isinstance(value, Mapping):
        raise RowError(field, f"expected an object, got {shown(value)}")
    return value


def _prompt(value: Any) -> tuple[Message, ...]:
    """Return an opening system message, if any, and the first user message; the rest was recorded."""
    if isinstance(value, str) and value.strip():
        return (Message("user", value),)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise RowError("prompt", f"expected text or a list of messages, got {shown(value)}")
    messages: list[Message] = []
    for index, item in enumerate(value):
        if not isinstance(item, Mapping) or not isinstance(item.get("role"), str):
            raise RowError(f"prompt.{index}", f"expected a message with a role, got {shown(item)}")
        if item["role"] == "user" or (item["role"] == "system" and index == 0):
            messages.append(Message(item["role"], _text(item.get("content"), f"prompt.{index}.content")))
        if item["role"] == "user":
            return tuple(messages)
    raise RowError("prompt", "holds no user message, and the first of those is the task")


def _text(content: Any, field: str) -> str:
    """Return the content as text; the text parts of a multi-part message are joined."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str) or not content.strip():
        raise RowError(field, f"expected text, got {shown(content)}")
    return content


def _names(value: Any, field: str) -> Iterator[str]:
    """Yield tool names from a list of names or of objects that contain one."""
    if value is None:
        return
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise RowError(field, f"expected a list of tools, got {shown(value)}")
    for index, item in enumerate(value):
        name = item
        if isinstance(item, Mapping):
            name = next((item[key] for key in ("tool", "name", "tool_name") if item.get(key)), None)
        if not isinstance(name, str) or not name:
            raise RowError(f"{field}.{index}", f"expected a tool's name, got {shown(item)}")
        yield name


def _servers(
    tools: Sequence[str], facts: Mapping[str, Any], tool_servers: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the servers of these tools, then the servers that the steps of `tool_sequence` name."""
    steps = facts.get("tool_sequence") or ()
    named = [step.get("server") for step in steps if isinstance(step, Mapping)]
    by_tool = [tool_servers[tool] for tool in tools if tool in tool_servers]
    return tuple(dict.fromkeys([*by_tool, *(name for name in named if isinstance(name, str) and name)]))


def _answer(truth: Any) -> Answer | None:
    """Return the answer: the truth itself if it is text or a number, or a field of it."""
    if isinstance(truth, Mapping):
        keys = ("answer", "expected_answer", "final_answer")
        truth = next((truth[key] for key in keys if truth.get(key) is not None), None)
    if isinstance(truth, str | int | float) and not isinstance(truth, bool) and str(truth).strip():
        return Answer(str(truth))
    return None


def _difficulty(complexity: Any) -> Difficulty:
    if complexity is None:
        return Difficulty.MEDIUM
    found = _COMPLEXITY.get(complexity.strip().lower()) if isinstance(complexity, str) else None
    if found is None:
        known = ", ".join(_COMPLEXITY)
        raise RowError("extra_info.complexity", f"expected one of {known}, got {shown(complexity)}")
    return found


def _count(value: Any, field: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RowError(field, f"expected a whole number from 1, got {shown(value)}")
    return value


def _split(given: Any, file_stem: str) -> str:
    """Return the row's split, else the one in the file's name (`data/processed/train.json`), else train."""
    if isinstance(given, str) and given:
        return _SPLITS.get(given.lower(), given)
    words = file_stem.lower().replace("-", "_").replace(".", "_").split("_")
    return next((_SPLITS[word] for word in words if word in _SPLITS), "train")
