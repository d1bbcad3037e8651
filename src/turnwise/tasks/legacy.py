"""Takes a row of an earlier system (`prompt`, `reward_spec`, `extra_info`), gives a `Task` as far as it says.

What such a row leaves open stays open: no answer is invented, and an unknown tool's server is not guessed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnwise.tasks.rows import RowError, shown
from turnwise.types import Answer, Difficulty, Message, Task, Truth

MARKS = ("reward_spec", "reward_model", "extra_info")
"""A row with one of these columns is an earlier system's."""

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
    """The task a row of an earlier system asks for; `tool_servers` says which server has which tool."""
    spec_name = "reward_model" if "reward_model" in row and "reward_spec" not in row else "reward_spec"
    extra = _object(row.get("extra_info"), "extra_info")
    truth = _object(row.get(spec_name), spec_name).get("ground_truth")
    facts = truth if isinstance(truth, Mapping) else {}
    where = f"{spec_name}.ground_truth"
    required = tuple(dict.fromkeys(_names(facts.get("expected_tools"), f"{where}.expected_tools")))
    sequence = tuple(dict.fromkeys(_names(facts.get("tool_sequence"), f"{where}.tool_sequence")))
    available = _first(extra, facts, "tools_available")
    offered = tuple(dict.fromkeys(_names(available, "extra_info.tools_available")))
    return Task(
        id=str(_first(extra, facts, "task_id") or row.get("id") or f"{file_stem}-{number}"),
        prompt=_prompt(row.get("prompt")),
        servers=_servers((*offered, *required, *sequence), facts, tool_servers),
        truth=Truth(
            answer=_answer(truth),
            required_tools=required,
            milestones=sequence,
            rubric=_rubric(facts.get("success_criteria")),
        ),
        tools=offered or None,
        difficulty=_difficulty(_first(extra, facts, "complexity")),
        max_turns=_max_turns(_first(extra, facts, "max_turns")),
        family=str(_first(extra, facts, "category") or ""),
        split=_split(extra.get("split"), file_stem),
    )


def _object(value: Any, field: str) -> Mapping[str, Any]:
    """A mapping; Parquet files hold such columns as JSON text as well."""
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


def _first(extra: Mapping[str, Any], facts: Mapping[str, Any], key: str) -> Any:
    """`extra_info` speaks first; some rows repeat its fields in the truth."""
    return facts.get(key) if extra.get(key) is None else extra[key]


def _prompt(value: Any) -> tuple[Message, ...]:
    """The first user message, after a system message that opens the conversation; the rest was played."""
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
    """Text, or the text parts of a message that is written in parts."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str) or not content.strip():
        raise RowError(field, f"expected text, got {shown(content)}")
    return content


def _names(value: Any, field: str) -> Iterator[str]:
    """Tool names, written as names or as objects that hold one."""
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
    """The servers of the tools named, and those that the steps of a sequence name themselves."""
    steps = facts.get("tool_sequence") or ()
    told = [step.get("server") for step in steps if isinstance(step, Mapping)]
    found = [tool_servers[tool] for tool in tools if tool in tool_servers]
    return tuple(dict.fromkeys([*found, *(name for name in told if isinstance(name, str) and name)]))


def _answer(truth: Any) -> Answer | None:
    """A truth that is plain text or a number is the answer; an object may hold one."""
    if isinstance(truth, Mapping):
        keys = ("answer", "expected_answer", "final_answer")
        truth = next((truth[key] for key in keys if truth.get(key) is not None), None)
    if isinstance(truth, str | int | float) and not isinstance(truth, bool) and str(truth).strip():
        return Answer(str(truth))
    return None


def _rubric(criteria: Any) -> str:
    """Success criteria as lines a judge can read."""
    if criteria is None:
        return ""
    if isinstance(criteria, str):
        return criteria
    if isinstance(criteria, Mapping):
        pairs = ((key, value) for key, value in criteria.items() if value is not None)
        return "\n".join(
            f"{key}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for key, value in pairs
        )
    if isinstance(criteria, Sequence):
        return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in criteria)
    raise RowError("success_criteria", f"expected text, a list or an object, got {shown(criteria)}")


def _difficulty(complexity: Any) -> Difficulty:
    if complexity is None:
        return Difficulty.MEDIUM
    found = _COMPLEXITY.get(complexity.strip().lower()) if isinstance(complexity, str) else None
    if found is None:
        known = ", ".join(_COMPLEXITY)
        raise RowError("extra_info.complexity", f"expected one of {known}, got {shown(complexity)}")
    return found


def _max_turns(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RowError("max_turns", f"expected a whole number from 1, got {shown(value)}")
    return value


def _split(given: Any, file_stem: str) -> str:
    """What the row says; else what the file is called, `data/processed/train.json` being the usual way."""
    if isinstance(given, str) and given:
        return _SPLITS.get(given.lower(), given)
    words = file_stem.lower().replace("-", "_").replace(".", "_").split("_")
    return next((_SPLITS[word] for word in words if word in _SPLITS), "train")
