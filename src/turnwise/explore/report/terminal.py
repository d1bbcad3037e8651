"""The report of an exploration on the terminal: about a screen and a half of plain lines."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from turnwise.explore.exploration import Exploration, Limit, ServerFinding
from turnwise.explore.report.findings import (
    Reach,
    answer_text,
    counted,
    duration,
    figures_of,
    one_line,
    plan_line,
    question_of,
    reach_of,
    reason_groups,
    samples,
    shape_rows,
)
from turnwise.system.terminal import figure_table, wrapped
from turnwise.tasks.selection import SPLITS
from turnwise.types import Difficulty

MAX_SERVERS = 8
MAX_REASONS = 12
MAX_REJECTIONS = 4
NUM_SAMPLES = 10
NUM_FEW_TASKS = 100
"""With fewer tasks than this, the report suggests a longer exploration."""
_COLUMNS = ("tasks", *Difficulty, *SPLITS)
_MAX_CHARS = 400
_INDENT = 4


def print_exploration(
    exploration: Exploration, *, next_command: str = "", console: Console | None = None
) -> None:
    """Print the report, no line wider than the terminal; `next_command` is what uses the tasks."""
    console = console or Console(emoji=False)
    for line, style in report_lines(exploration, console.width, next_command=next_command):
        text = Text(line, style=style)
        text.truncate(console.width, overflow="ellipsis")  # by columns: some characters take two
        console.print(text, highlight=False, soft_wrap=True)


def report_lines(
    exploration: Exploration, width: int, *, next_command: str = ""
) -> Iterator[tuple[str, str]]:
    """The lines of the report with their styles. Texts of servers contain only printable characters."""
    yield from _summary(exploration)
    rows = shape_rows(exploration.tasks, _COLUMNS)
    for title, lines in (
        ("Servers", list(_servers(exploration, width))),
        ("Tasks by shape", list(figure_table(("shape", *_COLUMNS), rows, width - 2)) if rows else []),
        ("Rejected drafts", list(_rejections(exploration))),
        ("Sample tasks", list(_samples(exploration, width))),
        ("Combinations of tools that only test tasks use", list(map(one_line, exploration.held_out[:3]))),
        ("Next", list(_next(exploration, next_command))),
    ):
        if lines:
            yield "", ""
            yield title, "bold"
            yield from ((f"  {line}".rstrip(), "") for line in lines)


def _summary(exploration: Exploration) -> Iterator[tuple[str, str]]:
    found = figures_of(exploration)
    tasks, servers = counted(found.num_tasks, "verified task"), counted(found.num_servers, "server")
    yield f"{tasks} from {servers} in {duration(found.seconds)}, seed {exploration.seed}", "bold"
    reached = f"{found.num_reached:,} of {counted(found.num_tools, 'tool')} reached"
    yield (
        f"{reached}, {found.num_tools_in_tasks:,} in tasks; {counted(found.num_calls, 'call')}, "
        f"{counted(found.num_links, 'link')}, {counted(found.num_rejected, 'draft')} rejected",
        "",
    )
    if exploration.num_kept or exploration.dropped:
        why = "".join(f"; {num:,} dropped: {one_line(reason)}" for reason, num in exploration.dropped.items())
        yield f"{counted(exploration.num_kept, 'earlier task')} kept{why}", ""
    if exploration.rewordings:
        outcomes = (f"{num:,} {one_line(why)}" for why, num in exploration.rewordings.items())
        yield f"writer: {'; '.join(outcomes)}", ""
    if found.was_interrupted:
        yield "interrupted: the report covers what was found until then", "yellow"


def _servers(exploration: Exploration, width: int) -> Iterator[str]:
    for server in exploration.servers[:MAX_SERVERS]:
        yield _server_line(server)
        groups = reason_groups(server)
        for reach, reason, tools in groups[:MAX_REASONS]:
            named = f"{', '.join(tools[:4])}{f' and {len(tools) - 4} more' if len(tools) > 4 else ''}"
            first, *more = wrapped(f"{len(tools)} {reach}: {named}; {reason}", width - _INDENT - 4) or [""]
            yield f"  {first}"
            yield from (f"      {line}" for line in more)
        if len(groups) > MAX_REASONS:
            yield f"  and {counted(len(groups) - MAX_REASONS, 'more reason')} in report.json"
    if len(exploration.servers) > MAX_SERVERS:
        yield f"and {counted(len(exploration.servers) - MAX_SERVERS, 'more server')} in report.json"


def _server_line(server: ServerFinding) -> str:
    why_not = one_line(server.why_not, _MAX_CHARS)
    if why_not and not server.tools:
        return f"{one_line(server.server)}: not explored, {why_not}"
    reached = sum(reach_of(tool) is not Reach.NOT_REACHED for tool in server.tools)
    in_tasks = sum(reach_of(tool) is Reach.IN_TASKS for tool in server.tools)
    tools = f"{counted(len(server.tools), 'tool')}, {reached} reached, {in_tasks} in tasks"
    calls = f"{counted(server.num_calls, 'call')} in {duration(server.seconds)}"
    return f"{one_line(server.server)}: {tools}; {calls}{f'; stopped early, {why_not}' if why_not else ''}"


def _rejections(exploration: Exploration) -> Iterator[str]:
    found = sorted(exploration.rejections.items(), key=lambda item: -item[1])
    for reason, num in found[:MAX_REJECTIONS]:
        example = exploration.rejected_examples.get(reason, "")
        words = f", e.g. {one_line(example, _MAX_CHARS)}" if example else ""
        yield f"{num:>5,} {one_line(reason, _MAX_CHARS)}{words}"
    if rest := found[MAX_REJECTIONS:]:
        yield f"{sum(num for _, num in rest):>5,} for {counted(len(rest), 'other reason')}"


def _samples(exploration: Exploration, width: int) -> Iterator[str]:
    for number, task in enumerate(samples(exploration.tasks, NUM_SAMPLES), start=1):
        first, *more = wrapped(one_line(question_of(task), _MAX_CHARS), width - 6) or [""]
        yield f"{number:>2}. {first}"
        if more:
            yield f"    {' '.join(more)}"
        end = f"; answer {one_line(answer_text(task))} ({task.difficulty})"
        yield f"    {one_line(plan_line(task), max(width - 6 - len(end), 20))}{end}"


def _next(exploration: Exploration, next_command: str) -> Iterator[str]:
    found = figures_of(exploration)
    is_little = found.num_tasks < NUM_FEW_TASKS
    if found.num_tasks and next_command:
        yield next_command
    if exploration.was_interrupted or (is_little and exploration.limit is Limit.TIME):
        yield "--minutes N      explore longer"
    if is_little and exploration.limit is Limit.TASKS:
        yield "--tasks N        find more"
    if found.num_reached < found.num_tools:
        yield "--values FILE    give values of your own to tools that were not reached"
