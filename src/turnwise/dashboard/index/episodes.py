"""Parse a line of a trajectory file into the rows that the index keeps."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from turnwise.dashboard.index.short_text import shortened
from turnwise.rewards import succeeded
from turnwise.rewards.outcome import successes_of
from turnwise.rewards.verdicts import Verdict, verdicts_of
from turnwise.types import Cause, Fault, Reward, Tool, Trajectory
from turnwise.types.protocols import RewardDown

MAX_LISTED_CHARS = 120
"""The most characters of a question or an answer in the list; every filter reads past them."""

_NUMBER = re.compile(
    r"(?P<sign>[+-]?)\s?[$€£¥]?\s?(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))(?:[eE][+-]?\d+)?)"
    r"(?:\s?[%°]\w?|\s?[^\W\d_]{1,12}(?:/\w{1,12})?)?\.?",
    re.ASCII,
)
"""A number with its currency or unit. Not a text that only contains a number."""

_TRAJECTORY = TypeAdapter(Trajectory)
_TOOLS = TypeAdapter(tuple[Tool, ...])


@dataclass(frozen=True, slots=True)
class CallRow:
    """One tool call that has a result."""

    tool: str
    server: str
    cause: str
    seconds: float
    num_retries: int


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One row of the trajectory list."""

    step: int
    task: str
    family: str
    difficulty: str
    episode: str
    reward: float
    is_success: bool | None
    """None if success could not be determined, where `fault` is `reward`, or if the episode started inside
    the task's plan."""
    stop: str
    fault: str
    """The worst fault: `infra`, `model`, `format` (a turn could not be parsed) or `none`.

    `reward` if the reward that determines success failed.
    """
    num_turns: int
    num_calls: int
    num_tokens: int
    seconds: float
    engine_seconds: float
    tool_seconds: float
    question: str
    """The last user message of the prompt; in a conversation, the message that `answer` answers."""
    answer: str
    """What the model said to the first message that failed, else to the last; `expected` is the truth."""
    expected: str
    answer_number: float | None
    """The answer as a number, to sort by; None if it is another text. The same for `expected_number`."""
    expected_number: float | None
    failed_check: str
    """The first check that failed; empty if none did, or if the truth cannot be evaluated."""
    messages: str
    """For each message of a conversation, `1` if it succeeded, else `0`; empty if it has only one."""
    calls: tuple[CallRow, ...]


def tools_of(record: Mapping[str, Any]) -> tuple[Tool, ...]:
    """The tools listed in a line of kind `tools`."""
    return _TOOLS.validate_python(record["tools"])


def episode_of(record: Mapping[str, Any], tools: Sequence[Tool]) -> EpisodeRow:
    """The row of a trajectory line. ValueError, KeyError or TypeError if the line has another shape."""
    played, task = record["trajectory"], record["trajectory"]["task"]
    turns = played["turns"]
    calls = _calls(turns, {tool.name: tool.server for tool in tools})
    is_success = _is_success(record, tools)
    judged = verdicts(record, tools)
    message = next((place for place, verdict in enumerate(judged) if verdict.failed), len(judged) - 1)
    verdict = judged[message] if judged else Verdict(None, "", {})
    return EpisodeRow(
        step=int(record["step"]),
        task=text(task["id"]),
        family=text(task["family"]),
        difficulty=text(task["difficulty"]),
        episode=text(played["episode_id"]),
        reward=float(record["reward"]["total"]),
        is_success=is_success,
        stop=text(played["stop"]),
        fault="reward" if is_success is None and not _is_inside_plan(turns) else _fault(turns, calls),
        num_turns=len(turns),
        num_calls=len(calls),
        num_tokens=sum(_num_sampled(turn) for turn in turns),
        seconds=float(played["seconds"]),
        engine_seconds=sum(turn["engine_seconds"] for turn in turns),
        tool_seconds=sum(turn["tool_seconds"] for turn in turns),
        question=_line(_question(task, message)),
        answer=_line(verdict.said),
        expected=_line(verdict.expected or ""),
        answer_number=_number(verdict.said),
        expected_number=_number(verdict.expected or ""),
        failed_check=verdict.failed,
        messages="".join(str(int(held)) for held in messages_of(record, tools)),
        calls=calls,
    )


def _question(task: Mapping[str, Any], message: int) -> str:
    """The user's words of a message, counted from 0; empty if the task has another shape."""
    try:
        if message > 0:
            return str(task["conversation"][message - 1]["message"])
        return next(str(part["content"]) for part in reversed(task["prompt"]) if part["role"] == "user")
    except (LookupError, TypeError, StopIteration):
        return ""


def _number(words: str) -> float | None:
    """The value of a text that is a number, with or without a unit: `-1,234.5 USD`, `$3`, `12%`."""
    match = _NUMBER.fullmatch(words.strip()[:MAX_LISTED_CHARS])
    value = float((match["sign"] + match["digits"]).replace(",", "")) if match else math.inf
    return value if math.isfinite(value) else None


def _line(words: str) -> str:
    """The beginning of a text on one line, for the list."""
    return shortened(text(" ".join(words[: 4 * MAX_LISTED_CHARS].split())), MAX_LISTED_CHARS)


def text(value: Any) -> str:
    """Return `value` as text that SQLite can store: JSON may contain lone surrogates, invalid in UTF-8."""
    return str(value).encode("utf-8", "replace").decode()


def fault_of(cause: str) -> str:
    """The fault class of a result's cause; `infra` for a cause this version does not know."""
    return (Cause(cause).fault if cause in set(Cause) else Fault.INFRA).value


def _calls(turns: Sequence[Mapping[str, Any]], servers: Mapping[str, str]) -> tuple[CallRow, ...]:
    return tuple(
        CallRow(
            text(call["name"]),
            text(servers.get(call["name"], "")),
            text(result["cause"]),
            float(result["seconds"]),
            int(result["num_retries"]),
        )
        for turn in turns
        for call, result in zip(turn["parsed"]["calls"], turn["results"], strict=False)
    )


def _fault(turns: Sequence[Mapping[str, Any]], calls: Sequence[CallRow]) -> str:
    faults = {fault_of(call.cause) for call in calls}
    if any(turn["parsed"]["error"] is not None for turn in turns):
        faults.add("format")
    return next((fault for fault in ("infra", "model", "format") if fault in faults), "none")


def _num_sampled(turn: Mapping[str, Any]) -> int:
    usage = turn.get("usage")
    return int(usage[1]) if usage else len(turn["completion"]["token_ids"])


def _is_success(record: Mapping[str, Any], tools: Sequence[Tool]) -> bool | None:
    """Success by the run's own criterion; None if it cannot be determined, or does not count."""
    if _is_inside_plan(record["trajectory"]["turns"]):
        return None
    total, parts = record["reward"]["total"], record["reward"]["parts"]
    if "outcome" in parts:  # the same verdict, computed during the run
        return bool(parts["outcome"] >= 1)
    try:
        return succeeded(_without_tokens(record, tools), Reward(total, parts))
    except RewardDown:
        return None


def _is_inside_plan(turns: Sequence[Mapping[str, Any]]) -> bool:
    return any(turn.get("is_given") for turn in turns)


def messages_of(record: Mapping[str, Any], tools: Sequence[Tool]) -> list[bool]:
    """Whether each message of a conversation succeeded; empty without a conversation or sufficient truths."""
    if not record["trajectory"]["task"].get("conversation"):
        return []
    try:
        return list(successes_of(_without_tokens(record, tools)))
    except (RewardDown, ValueError):
        return []


def verdicts(record: Mapping[str, Any], tools: Sequence[Tool]) -> list[Verdict]:
    """The verdict on each message; empty if the line or its truths cannot be evaluated."""
    try:
        reward = Reward(float(record["reward"]["total"]), record["reward"]["parts"])
        return list(verdicts_of(_without_tokens(record, tools), reward))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return []


def _without_tokens(record: Mapping[str, Any], tools: Sequence[Tool]) -> Trajectory:
    """The trajectory of a line, without the tokens, which no verdict uses."""
    empty: dict[str, list[Any]] = {"token_ids": [], "logprobs": []}
    turns = [
        {**turn, "new_ids": [], "completion": {**turn["completion"], **empty}}
        for turn in record["trajectory"]["turns"]
    ]
    return _TRAJECTORY.validate_python({**record["trajectory"], "turns": turns, "tools": list(tools)})
