"""Rows of multi-mcp-rl whose questions the embedded world answers, with plans that find the answer."""

import functools
import hashlib
import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from turnwise.tasks.load import PlacedTask
from turnwise.tasks.proof.answers import computed, printed
from turnwise.tasks.proof.case import Case, Conclusion, PlanStep, Results
from turnwise.tasks.proof.verdict import Earns
from turnwise.tasks.proof.verification import Lease, TaskDraft, verified
from turnwise.types import Answer, ExpectedWrite, Matcher, StateProbe, Task, Tool

_PLACE = re.compile(r"<<([\w.]+)>>")
_SEND = "send_slack_message"


async def with_truths(
    placed: Sequence[PlacedTask],
    tools: Sequence[Tool],
    embedded: Collection[str],
    lease: Lease,
    earns: Earns,
) -> list[PlacedTask]:
    """Give rows that the world can answer a truth and a demonstration, both found by playing the plan twice.

    Only tools of `embedded` servers are called. A row whose plan does not hold in this world stays as it is.
    """
    by_name = {tool.name: tool for tool in tools if tool.server in embedded}
    rows = []
    for item in placed:
        draft = _draft_of(item.task, by_name) if item.recording is not None else None
        found = await verified(draft, lease, None, item.task.tools, earns) if draft else None
        rows.append(replace(item, task=found, recording=None) if isinstance(found, Task) else item)
    return rows


def _draft_of(task: Task, tools: Mapping[str, Tool]) -> TaskDraft | None:
    """The draft of a converted row, yet to be verified; None if there is no plan for its question."""
    row, question = _rows().get(task.id), task.prompt[-1].content
    if row is None or hashlib.sha256(question.encode()).hexdigest()[:16] != row["question"]:
        return None
    if not {step["tool"] for turn in row["turns"] for step in turn} <= tools.keys():
        return None
    turns = tuple(tuple(_step(**step) for step in turn) for turn in row["turns"])
    case = Case({}, row["form"], turns, functools.partial(_conclusion, row), min_tool_calls=1)
    servers = tuple(dict.fromkeys(tools[step.tool].server for turn in turns for step in turn))
    required = tuple(row.get("required_tools", ()))
    messages = (f"{question} {row['form']}",)
    return TaskDraft(
        task.id, task.family, task.split, task.difficulty, servers, required, messages, case, task.seed
    )


@functools.cache
def _rows() -> Mapping[str, Any]:
    return tomllib.loads(files(__package__).joinpath("earlier_rows.toml").read_text(encoding="utf-8"))


def _step(tool: str, **arguments: Any) -> PlanStep:
    return PlanStep(tool, lambda results: {name: _filled(arguments[name], results) for name in arguments})


def _filled(value: Any, results: Results) -> Any:
    """Replace `<<2.0.price>>` by what that path leads to among the results so far, from 0."""

    def follow(place: re.Match[str]) -> str:
        found: Any = results
        for key in place[1].split("."):
            found = found[int(key) if isinstance(found, list) else key]
        return found.strip() if isinstance(found, str) else repr(found)

    return _PLACE.sub(follow, value) if isinstance(value, str) else value


def _conclusion(row: Mapping[str, Any], results: Results) -> Conclusion:
    """What the plan's last code printed is the answer, as a number, a text or JSON."""
    text = printed([result for result in results if isinstance(result, dict) and "stdout" in result][-1])
    answer = {
        "number": lambda: computed(float(text), unit=row.get("unit", "")),
        "text": lambda: Answer(text),
        "json": lambda: Answer(json.loads(text), Matcher.JSON_SUBSET),
    }[row["answer"]]()
    writes = [ExpectedWrite(_SEND, {}) for turn in row["turns"] for step in turn if step["tool"] == _SEND]
    probes = [
        StateProbe("get_slack_channel_history", {"channel_id": channel, "limit": 5}, _filled(said, results))
        for channel, said in row.get("posted", {}).items()
    ]
    return Conclusion(answer, text, tuple(writes), tuple(probes))
