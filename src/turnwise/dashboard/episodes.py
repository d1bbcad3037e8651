"""Parse a line of a trajectory file into the rows that the index keeps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from turnwise.protocols import RewardDown
from turnwise.rewards import succeeded
from turnwise.types import Cause, Fault, Reward, Tool, Trajectory

_TRAJECTORY = TypeAdapter(Trajectory)
_TOOLS = TypeAdapter(tuple[Tool, ...])


@dataclass(frozen=True, slots=True)
class CallRow:
    """One tool call that was made."""

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
    """None where that could not be told: see `fault`."""
    stop: str
    fault: str
    """The worst of its calls' faults; `format` where the model's own words could not be read, `reward` where
    what would tell success is itself at fault."""
    num_turns: int
    num_calls: int
    num_tokens: int
    seconds: float
    engine_seconds: float
    tool_seconds: float
    calls: tuple[CallRow, ...]


def tools_of(record: Mapping[str, Any]) -> tuple[Tool, ...]:
    """Of a line that says which tools were offered."""
    return _TOOLS.validate_python(record["tools"])


def episode_of(record: Mapping[str, Any], tools: Sequence[Tool]) -> EpisodeRow:
    """Of a trajectory's line. ValueError, KeyError or TypeError where it is none of ours."""
    played, task = record["trajectory"], record["trajectory"]["task"]
    turns = played["turns"]
    calls = _calls(turns, {tool.name: tool.server for tool in tools})
    is_success = _is_success(record, tools)
    return EpisodeRow(
        step=int(record["step"]),
        task=text(task["id"]),
        family=text(task["family"]),
        difficulty=text(task["difficulty"]),
        episode=text(played["episode_id"]),
        reward=float(record["reward"]["total"]),
        is_success=is_success,
        stop=text(played["stop"]),
        fault="reward" if is_success is None else _fault(turns, calls),
        num_turns=len(turns),
        num_calls=len(calls),
        num_tokens=sum(_num_sampled(turn) for turn in turns),
        seconds=float(played["seconds"]),
        engine_seconds=sum(turn["engine_seconds"] for turn in turns),
        tool_seconds=sum(turn["tool_seconds"] for turn in turns),
        calls=calls,
    )


def text(value: Any) -> str:
    """As a database can hold it: JSON may bring halves of characters, which no encoding knows."""
    return str(value).encode("utf-8", "replace").decode()


def fault_of(cause: str) -> str:
    """Whose doing a call's end was; of a cause this version does not know, infrastructure's."""
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
    """As the run itself counts it; the tokens are left out, for it asks nothing of them."""
    total, parts = record["reward"]["total"], record["reward"]["parts"]
    if "outcome" in parts:  # the same judgement, made when it was played
        return bool(parts["outcome"] >= 1)
    empty: dict[str, list[Any]] = {"token_ids": [], "logprobs": []}
    turns = [
        {**turn, "new_ids": [], "completion": {**turn["completion"], **empty}}
        for turn in record["trajectory"]["turns"]
    ]
    trajectory = _TRAJECTORY.validate_python({**record["trajectory"], "turns": turns, "tools": list(tools)})
    try:
        return succeeded(trajectory, Reward(total, parts))
    except RewardDown:
        return None
