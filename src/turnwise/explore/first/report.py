"""The report of an exploration on the terminal: about a screen and a half of plain lines."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from turnwise.explore.exploration import Exploration, Limit, ServerFinding
from turnwise.explore.first.findings import (
    COLUMNS,
    Reach,
    ReasonGroup,
    answer_text,
    counted,
    duration,
    figures_of,
    history_of,
    most_used,
    one_line,
    plan_line,
    question_of,
    reach_of,
    reason_groups,
    rejections_by_count,
    samples,
    shape_rows,
)
from turnwise.system.terminal import figure_table, wrapped

MAX_SERVERS = 8
MAX_SERVER_LINES = 24
"""Lines about tools that no task uses, over all servers."""
MAX_LINKS = 5
MAX_SHAPES = 8
MAX_REJECTIONS = 4
MAX_HELD_OUT = 3
NUM_FEW_TASKS = 100
"""With fewer tasks than this, the report suggests a longer exploration."""

_MAX_CHARS = 400
_INDENT = 4
"""Columns in front of a reason."""


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
    for title, lines in (
        ("Servers", list(_servers(exploration, width))),
        ("Links, most used first", list(_links(exploration))),
        ("Tasks by shape", list(_shapes(exploration, width))),
        ("Rejected drafts", list(_rejections(exploration))),
        ("Sample tasks", list(_samples(exploration, width))),
        ("Combinations of tools that only test tasks use", list(_held_out(exploration))),
        ("Next", list(_next(exploration, width, next_command))),
    ):
        if lines:
            yield "", ""
            yield title, "bold"
            yield from ((f"  {line}".rstrip(), "") for line in lines)


def _summary(exploration: Exploration) -> Iterator[tuple[str, str]]:
    found = figures_of(exploration)
    yield (
        f"{counted(found.num_tasks, 'verified task')} from {counted(found.num_servers, 'server')} in "
        f"{duration(found.seconds)}, seed {exploration.seed}",
        "bold",
    )
    yield (
        f"{found.num_reached:,} of {counted(found.num_tools, 'tool')} reached, "
        f"{found.num_tools_in_tasks:,} in tasks; {counted(found.num_calls, 'call')}, "
        f"{counted(found.num_links, 'link')}, "
        f"{counted(found.num_rejected, 'draft')} rejected",
        "",
    )
    yield from ((line, "") for line in history_of(exploration))
    if found.was_interrupted:
        yield "interrupted: the report covers what was found until then", "yellow"


def _servers(exploration: Exploration, width: int) -> Iterator[str]:
    num_left = MAX_SERVER_LINES
    for server in exploration.servers[:MAX_SERVERS]:
        yield _server_line(server)
        groups = reason_groups(server)
        for number, group in enumerate(groups):
            first, *more = _reason_lines(group, width - _INDENT)
            if num_left < 1 + len(more):
                yield f"  and {counted(len(groups) - number, 'more reason')} in the HTML report"
                num_left = 0
                break
            num_left -= 1 + len(more)
            yield f"  {first}"
            yield from (f"      {line}" for line in more)
    if len(exploration.servers) > MAX_SERVERS:
        yield f"and {counted(len(exploration.servers) - MAX_SERVERS, 'more server')} in the HTML report"


def _server_line(server: ServerFinding) -> str:
    why_not = one_line(server.why_not, _MAX_CHARS)
    if why_not and not server.tools:
        return f"{one_line(server.server)}: not explored, {why_not}"
    reached = sum(reach_of(tool) is not Reach.NOT_REACHED for tool in server.tools)
    in_tasks = sum(reach_of(tool) is Reach.IN_TASKS for tool in server.tools)
    parts = [
        f"{one_line(server.server)}: {counted(len(server.tools), 'tool')}, {reached} reached, "
        f"{in_tasks} in tasks",
        f"{counted(server.num_calls, 'call')} in {duration(server.seconds)}",
        *([counted(server.num_resources, "resource")] if server.num_resources else []),
        *([counted(server.num_prompts, "prompt")] if server.num_prompts else []),
        *([f"stopped early, {why_not}"] if why_not else []),
    ]
    return "; ".join(parts)


def _reason_lines(group: ReasonGroup, width: int) -> list[str]:
    """`3 not reached: a, b, c; it needs a key`. The names take half of a line if the reason is long."""
    head = f"{len(group.tools)} {group.reach}:"
    room = max(width - len(head) - len(group.reason) - 10, width // 2 - len(head))
    shown = 1
    while shown < len(group.tools) and len(", ".join(group.tools[: shown + 1])) <= room:
        shown += 1
    more = f" and {len(group.tools) - shown} more" if shown < len(group.tools) else ""
    names = f"{head} {', '.join(group.tools[:shown])}{more}"
    return wrapped(f"{names}; {group.reason}", width - _INDENT) or [names]


def _links(exploration: Exploration) -> Iterator[str]:
    for link in most_used(exploration.links)[:MAX_LINKS]:
        source = f"{one_line(link.source_tool)}.{one_line(link.field)}"
        target = f"{one_line(link.target_tool)}({one_line(link.parameter)})"
        yield f"{source} → {target}  {counted(link.num_calls, 'call')}"


def _shapes(exploration: Exploration, width: int) -> Iterator[str]:
    table = list(shape_rows(exploration.tasks).items())
    if not table:
        return
    left_out = len(table) - 1 - MAX_SHAPES
    if left_out > 0:
        table = [*table[:MAX_SHAPES], table[-1]]
    rows = [(shape, *(str(count) for count in counts)) for shape, counts in table]
    yield from figure_table(("shape", *COLUMNS), rows, width - 2)
    if left_out > 0:
        yield f"and {counted(left_out, 'smaller shape')} in the HTML report"


def _rejections(exploration: Exploration) -> Iterator[str]:
    found = rejections_by_count(exploration.rejections)
    for reason, num in found[:MAX_REJECTIONS]:
        example = exploration.rejected_examples.get(reason, "")
        words = f", e.g. {one_line(example, _MAX_CHARS)}" if example else ""
        yield f"{num:>5,} {one_line(reason, _MAX_CHARS)}{words}"
    if len(found) > MAX_REJECTIONS:
        rest = sum(num for _, num in found[MAX_REJECTIONS:])
        yield f"{rest:>5,} for {counted(len(found) - MAX_REJECTIONS, 'other reason')}"


def _samples(exploration: Exploration, width: int) -> Iterator[str]:
    for number, task in enumerate(samples(exploration.tasks), start=1):
        first, *more = wrapped(one_line(question_of(task), _MAX_CHARS), width - 6) or [""]
        yield f"{number:>2}. {first}"
        if more:
            yield f"    {' '.join(more)}"
        end = f"; answer {one_line(answer_text(task))} ({task.difficulty})"
        plan = plan_line(task)
        room = max(width - 6 - len(end), 20)
        yield f"    {plan if len(plan) <= room else plan[: room - 1] + '…'}{end}"


def _held_out(exploration: Exploration) -> Iterator[str]:
    for words in exploration.held_out[:MAX_HELD_OUT]:
        yield one_line(words, _MAX_CHARS)
    if len(exploration.held_out) > MAX_HELD_OUT:
        yield f"and {len(exploration.held_out) - MAX_HELD_OUT} more"


def _next(exploration: Exploration, width: int, next_command: str) -> Iterator[str]:
    found = figures_of(exploration)
    if found.num_tasks and next_command:
        yield next_command
    is_little = found.num_tasks < NUM_FEW_TASKS
    if exploration.was_interrupted or (is_little and exploration.limit is Limit.TIME):
        yield "--minutes N      explore longer"
    if is_little and exploration.limit is Limit.TASKS:
        yield "--tasks N        find more"
    if found.num_reached < found.num_tools:
        yield "--values FILE    give values of your own to tools that were not reached"
    if is_little and exploration.limit is Limit.NONE and not exploration.was_interrupted:
        yield from wrapped(
            "the tools were tried to the end: what keeps them out of tasks stands above, under Servers and "
            "Rejected drafts; docs/guides/explore.md says what to do about each reason",
            width - _INDENT,
        )
