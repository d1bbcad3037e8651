"""Finds tasks whose reward can be earned without doing them, by playing shortcuts against their truth.

No server is called: every call of a shortcut succeeds. A truth that is judged by the state of a server
(`probes`) is not earned by a shortcut.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from turnwise.tasks.load import PlacedTask, Problem
from turnwise.tasks.proof.verdict import Earns, episode_of
from turnwise.types import Answer, Cause, DemoTurn, Matcher, Task, Tool, ToolCall, ToolResult

_GIVE_UP = "I give up."
_ROWS_SHOWN = 10


def find_shortcuts(placed: Sequence[PlacedTask], tools: Sequence[Tool], earns: Earns) -> list[Problem]:
    """Return a warning for each file and shortcut that earns a reward, with the rows."""
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for item in placed:
        for message in _earning(item.task, tools, earns):
            rows[item.file, message].append(item.row)
    return [
        Problem(file, first, "truth", f"{message}{_also(more)}")
        for (file, message), (first, *more) in rows.items()
    ]


def _also(rows: Sequence[int]) -> str:
    if not rows:
        return ""
    more = f" and {len(rows) - _ROWS_SHOWN} more" if len(rows) > _ROWS_SHOWN else ""
    return f" (also rows {', '.join(map(str, rows[:_ROWS_SHOWN]))}{more})"


def _earning(task: Task, tools: Sequence[Tool], earns: Earns) -> Iterator[str]:
    """Yield what is wrong for the first shortcut that earns the reward."""
    if task.conversation or task.user is not None:
        return
    for turns, message in _shortcuts(task, tools):
        if earns(episode_of(task, turns, tools, is_done=False)):
            yield message
            return


def _shortcuts(task: Task, tools: Sequence[Tool]) -> Iterator[tuple[tuple[DemoTurn, ...], str]]:
    yield (DemoTurn(_GIVE_UP),), "giving up at once earns the reward"
    calls = _every_tool(task, tools)
    if calls.calls:
        yield (
            (calls, DemoTurn(_GIVE_UP)),
            "calling each tool once and giving up earns the reward: add an `answer`, `writes` or `probes`",
        )
    right = _right_answer(task.truth.answer)
    if right:
        yield (
            (DemoTurn(right),),
            "the right answer earns the reward without a call, so a guess may: name `required_tools`",
        )


def _every_tool(task: Task, tools: Sequence[Tool]) -> DemoTurn:
    """One call of every tool that the task offers and does not forbid, and more until there are enough."""
    offered = [
        tool.name
        for tool in tools
        if (not task.servers or tool.server in task.servers)
        and tool.is_named_by(task.leased_tools)
        and tool.name not in task.truth.forbidden_tools
        and (task.truth.writes is None or tool.is_read_only)
    ]
    names = islice(cycle(offered), max(len(offered), task.truth.min_tool_calls)) if offered else ()
    calls = tuple(ToolCall(f"shortcut.{number}", name, {}) for number, name in enumerate(names))
    return DemoTurn("", calls, tuple(ToolResult(call.id, "", Cause.OK, 0.0) for call in calls))


def _right_answer(answer: Answer | None) -> str:
    """The answer as a model would write it; empty if the truth does not state one."""
    if answer is None or answer.matcher is Matcher.REGEX:
        return ""
    if answer.matcher is Matcher.ONE_OF:
        return str(answer.value[0]) if answer.value else ""
    return json.dumps(answer.value) if answer.matcher is Matcher.JSON_SUBSET else str(answer.value)
