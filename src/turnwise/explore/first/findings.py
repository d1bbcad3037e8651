"""What the reports of an exploration say: figures, reasons by tool, tasks by shape, sample tasks."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnwise.explore.exploration import Exploration, Link, ServerFinding, ToolFinding
from turnwise.system.terminal import printable
from turnwise.tasks.selection import SPLITS
from turnwise.types import Difficulty, StateProbe, Task, ToolCall

NUM_SAMPLES = 10
MAX_NAME_CHARS = 60
MAX_REASON_CHARS = 300
MAX_ARGUMENT_CHARS = 60
MAX_NUM_ARGUMENTS = 8

COLUMNS = ("tasks", *Difficulty, *SPLITS)
"""The columns of the table of tasks by shape."""


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


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Tools of one server that share the reason why no task uses them."""

    reach: Reach
    reason: str
    tools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call of a task's demonstration, shortened for display."""

    turn: int
    call: str
    result: str


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


def history_of(exploration: Exploration) -> Iterator[str]:
    """Yield what became of the tasks of an earlier exploration, and of the rewordings."""
    if exploration.num_kept or exploration.dropped:
        dropped = sum(exploration.dropped.values())
        why = "".join(f"; {num:,} dropped: {one_line(reason)}" for reason, num in exploration.dropped.items())
        earlier = counted(exploration.num_kept + dropped, "earlier task")
        yield f"{exploration.num_kept:,} of {earlier} kept{why}"
        if exploration.num_kept:
            yield "the plans of kept tasks give the same results; other checks were not repeated"
    if exploration.rewordings:
        counts = "; ".join(f"{num:,} {one_line(why)}" for why, num in exploration.rewordings.items())
        yield f"rewordings: {counts}"


def reach_of(tool: ToolFinding) -> Reach:
    if tool.num_tasks:
        return Reach.IN_TASKS
    return Reach.ANSWERED if tool.num_answers else Reach.NOT_REACHED


def reason_of(tool: ToolFinding) -> str:
    """Why no task uses the tool; empty if one does."""
    if reach_of(tool) is Reach.IN_TASKS:
        return ""
    if tool.why_not:
        return one_line(tool.why_not, MAX_REASON_CHARS)
    if not tool.num_calls:
        return "it was never called"
    if not tool.num_answers:
        return "every call failed"
    if not tool.is_stable:
        return "its answers differ between sessions"
    return "no task with it was accepted" if tool.is_reader else "it changes state"


def reason_groups(server: ServerFinding) -> list[ReasonGroup]:
    """The tools that no task uses, grouped by reach and reason, unreached tools and large groups first."""
    found: dict[tuple[Reach, str], list[str]] = {}
    for tool in server.tools:
        if (reach := reach_of(tool)) is not Reach.IN_TASKS:
            found.setdefault((reach, reason_of(tool)), []).append(one_line(tool.tool.server_tool))
    groups = [ReasonGroup(reach, reason, tuple(tools)) for (reach, reason), tools in found.items()]
    return sorted(groups, key=lambda group: (group.reach is not Reach.NOT_REACHED, -len(group.tools)))


def most_used(links: Sequence[Link]) -> list[Link]:
    """The links, those used by the most calls first."""
    return sorted(links, key=lambda link: -link.num_calls)


def shape_rows(tasks: Sequence[Task]) -> dict[str, list[int]]:
    """For every shape the number of tasks in each of `COLUMNS`; the largest shape first, the sum last."""
    rows: dict[str, Counter[str]] = {}
    for task in tasks:
        counts = rows.setdefault(one_line(task.family) or "-", Counter())
        counts.update(("tasks", task.difficulty, task.split))
    ordered = sorted(rows.items(), key=lambda row: -row[1]["tasks"])
    table = {shape: [counts[column] for column in COLUMNS] for shape, counts in ordered}
    if len(table) > 1:
        table["all"] = [sum(column) for column in zip(*table.values(), strict=True)]
    return table


def rejections_by_count(rejections: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(rejections.items(), key=lambda item: -item[1])


def samples(tasks: Sequence[Task], num: int = NUM_SAMPLES) -> list[Task]:
    """A few tasks: the shapes take turns, and within a shape the tasks are spread evenly."""
    shapes: dict[str, list[Task]] = {}
    for task in tasks:
        shapes.setdefault(task.family, []).append(task)
    chosen: list[Task] = []
    for round_ in range(num):
        for found in shapes.values():
            share = min(len(found), -(-num // len(shapes)))
            if round_ < share and len(chosen) < num:
                chosen.append(found[round_ * len(found) // share])
    return chosen


def question_of(task: Task) -> str:
    """The text of the last user message."""
    return next((message.content for message in reversed(task.prompt) if message.role == "user"), "")


def answer_text(task: Task) -> str:
    """The expected answer as text; a task without one names the state that it leaves behind."""
    answer = task.truth.answer
    if answer is not None:
        return answer.value if isinstance(answer.value, str) else _json(answer.value)
    if task.truth.probes:
        shown = [probe for probe in task.truth.probes if probe.contains or probe.lacks]
        return "checked state: " + ", ".join(map(_checked, shown))
    return "no answer to check"


def _checked(probe: StateProbe) -> str:
    return f"no {probe.lacks}" if probe.lacks else probe.contains


def plan_of(task: Task, max_result_chars: int = 200) -> list[PlannedCall]:
    """The calls of the demonstration with shortened results."""
    calls = []
    for number, turn in enumerate(task.demonstration, start=1):
        for place, call in enumerate(turn.calls):
            content = turn.results[place].content if place < len(turn.results) else ""
            calls.append(PlannedCall(number, call_text(call), one_line(content, max_result_chars)))
    return calls


def plan_line(task: Task) -> str:
    """The plan in one line: `a(x=1) → b(id=2) & c()`; calls joined by & are made in one turn."""
    turns = [" & ".join(call_text(call) for call in turn.calls) for turn in task.demonstration if turn.calls]
    return " → ".join(turns) or "no calls"


def tools_of(task: Task) -> tuple[str, ...]:
    """The tools that the demonstration calls, every tool once, in order."""
    return tuple(dict.fromkeys(call.name for turn in task.demonstration for call in turn.calls))


def call_text(call: ToolCall) -> str:
    shown = [
        f"{one_line(name)}={one_line(_json(value), MAX_ARGUMENT_CHARS)}"
        for name, value in list(call.arguments.items())[:MAX_NUM_ARGUMENTS]
    ]
    if len(call.arguments) > MAX_NUM_ARGUMENTS:
        shown.append("…")
    return f"{one_line(call.name)}({', '.join(shown)})"


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
