"""What the reports of an exploration say: figures, reasons by tool, tasks in words."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnwise.explore.exploration import Exploration, ServerFinding, ToolFinding
from turnwise.system.terminal import printable
from turnwise.types import Task, ToolCall

MAX_NAME_CHARS = 60
MAX_REASON_CHARS = 300
_MAX_ARGUMENT_CHARS = 60
_MAX_NUM_ARGUMENTS = 8


class Reach(StrEnum):
    """How far the exploration got with a tool."""

    IN_TASKS = "in tasks"
    ANSWERED = "answered, in no task"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class ExplorationFigures:
    """The figures that the reports start with."""

    num_servers: int
    num_tools: int
    num_reached: int
    """Tools that answered at least one call without an error."""
    num_tools_in_tasks: int
    num_calls: int
    num_links: int
    num_tasks: int
    num_rejected: int
    seconds: float
    was_interrupted: bool = False


def figures_of(exploration: Exploration) -> ExplorationFigures:
    tools = [tool for server in exploration.servers for tool in server.tools]
    return ExplorationFigures(
        num_servers=len(exploration.servers),
        num_tools=len(tools),
        num_reached=sum(reach_of(tool) is not Reach.NOT_REACHED for tool in tools),
        num_tools_in_tasks=sum(reach_of(tool) is Reach.IN_TASKS for tool in tools),
        num_calls=sum(server.num_calls for server in exploration.servers),
        num_links=len(exploration.links),
        num_tasks=len(exploration.tasks),
        num_rejected=sum(exploration.rejections.values()),
        seconds=exploration.seconds,
        was_interrupted=exploration.was_interrupted,
    )


def reach_of(tool: ToolFinding) -> Reach:
    if tool.num_tasks:
        return Reach.IN_TASKS
    return Reach.ANSWERED if tool.num_answers else Reach.NOT_REACHED


def reason_of(tool: ToolFinding) -> str:
    """Why no task uses the tool; empty if one does."""
    return "" if tool.num_tasks else one_line(tool.why_not, MAX_REASON_CHARS) or "it was never called"


def reason_groups(server: ServerFinding) -> list[tuple[Reach, str, list[str]]]:
    """The tools that no task uses by reach and reason, unreached tools and large groups first."""
    found: dict[tuple[Reach, str], list[str]] = {}
    for tool in server.tools:
        if (reach := reach_of(tool)) is not Reach.IN_TASKS:
            found.setdefault((reach, reason_of(tool)), []).append(one_line(tool.tool.server_tool))
    groups = [(reach, reason, tools) for (reach, reason), tools in found.items()]
    return sorted(groups, key=lambda group: (group[0] is not Reach.NOT_REACHED, -len(group[2])))


def shape_rows(tasks: Sequence[Task], columns: Sequence[str]) -> list[tuple[str, ...]]:
    """For every shape the number of tasks in each column; the largest shape first, the sum last."""
    rows: dict[str, Counter[str]] = {}
    for task in tasks:
        for name in (one_line(task.family) or "-", "all"):
            rows.setdefault(name, Counter()).update(("tasks", task.difficulty, task.split))
    ordered = sorted(rows.items(), key=lambda row: (row[0] == "all", -row[1]["tasks"]))
    return [(name, *(str(counts[column]) for column in columns)) for name, counts in ordered]


def samples(tasks: Sequence[Task], num: int) -> list[Task]:
    """A few tasks: the shapes take turns."""
    shapes: dict[str, list[Task]] = {}
    for task in tasks:
        shapes.setdefault(task.family, []).append(task)
    longest = max(map(len, shapes.values()), default=0)
    turns = (found[place] for place in range(longest) for found in shapes.values() if place < len(found))
    return [task for task, _ in zip(turns, range(num), strict=False)]


def question_of(task: Task) -> str:
    """The text of the last user message."""
    return next((message.content for message in reversed(task.prompt) if message.role == "user"), "")


def answer_text(task: Task) -> str:
    """The expected answer as text; a task without one is checked by the state that it leaves behind."""
    answer = task.truth.answer
    if answer is not None:
        return answer.value if isinstance(answer.value, str) else _json(answer.value)
    shown = [f"no {probe.lacks}" if probe.lacks else probe.contains for probe in task.truth.probes]
    said = ", ".join(filter(None, shown)) or "as asked"
    return f"checked state: {said}" if task.truth.probes else "no answer to check"


def plan_line(task: Task) -> str:
    """The plan in one line: `a(x=1) → b(id=2) & c()`; calls joined by & are made in one turn."""
    turns = [" & ".join(map(_call_text, turn.calls)) for turn in task.demonstration if turn.calls]
    return " → ".join(turns) or "no calls"


def tools_of(task: Task) -> tuple[str, ...]:
    """The tools that the demonstration calls, every tool once, in order."""
    return tuple(dict.fromkeys(call.name for turn in task.demonstration for call in turn.calls))


def _call_text(call: ToolCall) -> str:
    shown = [
        f"{one_line(name)}={one_line(_json(value), _MAX_ARGUMENT_CHARS)}"
        for name, value in list(call.arguments.items())[:_MAX_NUM_ARGUMENTS]
    ]
    more = ["…"] if len(call.arguments) > _MAX_NUM_ARGUMENTS else []
    return f"{one_line(call.name)}({', '.join([*shown, *more])})"


def one_line(text: str, max_chars: int = MAX_NAME_CHARS) -> str:
    """At most `max_chars` printable characters on one line; longer text ends with an ellipsis."""
    line = " ".join(printable(text[: 8 * max_chars]).split())  # white space may fill the part that is read
    is_cut = len(text) > 8 * max_chars or len(line) > max_chars
    return line[: max_chars - 1] + "…" if is_cut else line


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def counted(num: int, noun: str) -> str:
    """`1 task`, `1,200 tasks`."""
    return f"{num:,} {noun}{'' if num == 1 else 's'}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
