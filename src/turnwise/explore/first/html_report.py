"""The report of an exploration as one HTML file that loads nothing and runs no script."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from string import Template

from turnwise.explore.exploration import Exploration, ServerFinding, ToolFinding
from turnwise.explore.first.findings import (
    COLUMNS,
    Reach,
    answer_text,
    counted,
    duration,
    figures_of,
    history_of,
    most_used,
    one_line,
    plan_of,
    question_of,
    reach_of,
    reason_of,
    rejections_by_count,
    samples,
    shape_rows,
)
from turnwise.explore.first.link_graph import MAX_NODES, colours_of, link_graph
from turnwise.explore.first.markup import Child, Markup, element, joined
from turnwise.types import Difficulty, Task

MAX_SERVERS = 50
MAX_TOOLS = 300
"""The most rows in the table of one server's tools; so it is with the other tables."""
MAX_LINKS = 200
MAX_SHAPES = 40
MAX_REJECTIONS = 100
MAX_HELD_OUT = 200
MAX_CALLS = 12
NUM_SAMPLES = 30

_MAX_TEXT_CHARS = 1_500
_TONES = {Reach.IN_TASKS: "good", Reach.ANSWERED: "warn", Reach.NOT_REACHED: "bad"}
_PAGE = files("turnwise.explore.first") / "page"


def html_report(exploration: Exploration) -> bytes:
    """The whole file. Its Content-Security-Policy allows only its own style sheet."""
    style = (_PAGE / "report.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    content = joined(
        _summary(exploration),
        _servers(exploration),
        _links(exploration),
        _tasks(exploration),
        _rejections(exploration),
        _samples(exploration),
    )
    page = Template((_PAGE / "report.html").read_text("utf-8"))
    return page.substitute(digest=f"sha256-{digest}", style=style, content=content.html).encode()


def _summary(exploration: Exploration) -> Markup:
    found = figures_of(exploration)
    facts = {
        "verified tasks": f"{found.num_tasks:,}",
        "servers": f"{found.num_servers:,}",
        "tools reached": f"{found.num_reached:,} of {found.num_tools:,}",
        "tools in tasks": f"{found.num_tools_in_tasks:,}",
        "calls": f"{found.num_calls:,}",
        "links": f"{found.num_links:,}",
        "drafts rejected": f"{found.num_rejected:,}",
        "time": duration(found.seconds),
        "seed": str(exploration.seed),
    }
    entries = [element("div", element("dt", name), element("dd", value)) for name, value in facts.items()]
    warning = "Interrupted: the report covers what was found until then."
    return element(
        "section",
        element("h2", "Summary"),
        element("div", element("dl", *entries), class_="card"),
        *(element("p", line, class_="note") for line in history_of(exploration)),
        element("p", warning, class_="warn") if found.was_interrupted else "",
        id="summary",
    )


def _servers(exploration: Exploration) -> Markup:
    shown = [_server(server) for server in exploration.servers[:MAX_SERVERS]]
    rest = _rest(len(exploration.servers), MAX_SERVERS, "server")
    return element("section", element("h2", "Servers and tools"), *shown, rest, id="servers")


def _server(server: ServerFinding) -> Markup:
    reached = sum(reach_of(tool) is not Reach.NOT_REACHED for tool in server.tools)
    words = [
        f"{reached} of {counted(len(server.tools), 'tool')} reached",
        f"{counted(server.num_calls, 'call')} in {duration(server.seconds)}",
        *([counted(server.num_resources, "resource")] if server.num_resources else []),
        *([counted(server.num_prompts, "prompt")] if server.num_prompts else []),
    ]
    heads = ("tool", "", "calls", "answered", "tasks", "behaviour", "why no task uses it")
    rows = [_tool_row(tool) for tool in server.tools[:MAX_TOOLS]]
    why_not = one_line(server.why_not, _MAX_TEXT_CHARS)
    return joined(
        element("h3", one_line(server.server)),
        element("p", "; ".join(words), class_="note"),
        element("p", f"Not explored to the end: {why_not}", class_="bad") if why_not else "",
        _table(heads, rows) if rows else "",
        _rest(len(server.tools), MAX_TOOLS, "tool"),
    )


def _tool_row(tool: ToolFinding) -> Sequence[Child]:
    reach = reach_of(tool)
    facts = [
        *(["read-only"] if tool.is_reader and tool.num_answers else []),
        *(["stable" if tool.is_stable else "unstable"] if tool.num_answers else []),
        *([f"changing fields: {', '.join(map(one_line, tool.volatile[:8]))}"] if tool.volatile else []),
    ]
    return (
        one_line(tool.tool.server_tool),
        element("span", str(reach), class_=f"badge {_TONES[reach]}"),
        *(tool.num_calls, tool.num_answers, tool.num_tasks),
        ", ".join(facts),
        reason_of(tool),
    )


def _links(exploration: Exploration) -> Markup:
    servers = {tool.tool.name: server.server for server in exploration.servers for tool in server.tools}
    graph = link_graph(exploration.links, servers)
    keys = [
        element("span", one_line(name), class_=f"key c{colour}")
        for name, colour in list(colours_of(servers).items())[:MAX_SERVERS]
    ]
    rows = [
        (
            one_line(link.source_tool),
            one_line(link.field),
            one_line(link.target_tool),
            one_line(link.parameter),
            link.num_calls,
        )
        for link in most_used(exploration.links)[:MAX_LINKS]
    ]
    note = "An output field of one tool that worked as an input of another; every link was executed."
    too_many = f"The graph is drawn only if it has 2 to {MAX_NODES} tools."
    return element(
        "section",
        element("h2", "Links"),
        element("p", note, class_="note"),
        joined(element("p", *keys), element("div", graph, class_="wide")) if graph else "",
        element("p", too_many, class_="note") if exploration.links and not graph else "",
        _table(("from tool", "field", "to tool", "parameter", "calls"), rows)
        if rows
        else "No link was found.",
        _rest(len(exploration.links), MAX_LINKS, "link"),
        id="links",
    )


def _tasks(exploration: Exploration) -> Markup:
    table = shape_rows(exploration.tasks)
    shown = dict(list(table.items())[:MAX_SHAPES])
    rows: list[Sequence[Child]] = [(shape, *counts) for shape, counts in shown.items()]
    held_out = [
        element("li", one_line(words, _MAX_TEXT_CHARS)) for words in exploration.held_out[:MAX_HELD_OUT]
    ]
    keys = [
        element("span", str(level), class_=f"key c{number}")
        for number, level in enumerate(Difficulty, start=1)
    ]
    return element(
        "section",
        element("h2", "Tasks by shape and difficulty"),
        joined(_table(("shape", *COLUMNS), rows), element("p", *keys), _bars(shown))
        if rows
        else "No task was accepted.",
        _rest(len(table), MAX_SHAPES, "shape"),
        joined(element("h3", "Combinations of tools that only test tasks use"), element("ul", *held_out))
        if held_out
        else "",
        id="tasks",
    )


def _bars(table: dict[str, list[int]]) -> Markup:
    """One bar for every shape, divided by difficulty."""
    shapes = {shape: counts for shape, counts in table.items() if shape != "all"}
    most = max(counts[0] for counts in shapes.values())
    left, width, row = 190, 420, 24
    drawn: list[Markup] = []
    for place, (shape, counts) in enumerate(shapes.items()):
        x, y = float(left), place * row
        drawn.append(
            element("text", one_line(shape, 28), class_="axis", x=left - 8, y=y + 15, text_anchor="end")
        )
        for number, level in enumerate(Difficulty, start=1):
            count = counts[COLUMNS.index(level)]
            length = width * count / most
            title = element("title", f"{one_line(shape)}, {level}: {count}")
            if count:
                drawn.append(
                    element(
                        "rect",
                        title,
                        x=round(x, 1),
                        y=y + 4,
                        width=round(length, 1),
                        height=row - 8,
                        class_=f"bar c{number}",
                    )
                )
            x += length
        drawn.append(element("text", str(counts[0]), class_="axis", x=round(x + 6, 1), y=y + 15))
    height = row * len(shapes)
    picture = element(
        "svg",
        *drawn,
        viewBox=f"0 0 {left + width + 50} {height}",
        width=left + width + 50,
        height=height,
        role="img",
        aria_label="tasks by shape and difficulty, as in the table",
    )
    return element("div", picture, class_="wide")


def _rejections(exploration: Exploration) -> Markup:
    found = rejections_by_count(exploration.rejections)
    rows = [
        (one_line(reason, 200), num, one_line(exploration.rejected_examples.get(reason, ""), _MAX_TEXT_CHARS))
        for reason, num in found[:MAX_REJECTIONS]
    ]
    return element(
        "section",
        element("h2", "Rejected drafts"),
        _table(("reason", "drafts", "example"), rows) if rows else "None.",
        _rest(len(found), MAX_REJECTIONS, "reason"),
        id="rejections",
    )


def _samples(exploration: Exploration) -> Markup:
    chosen = samples(exploration.tasks, NUM_SAMPLES)
    title = f"{counted(len(chosen), 'sample task')} of {len(exploration.tasks):,}"
    return element("section", element("h2", title), *map(_sample, chosen), id="samples")


def _sample(task: Task) -> Markup:
    words = " · ".join(one_line(word) for word in (task.id, task.family, task.difficulty, task.split))
    plan = plan_of(task)
    calls = [
        joined(
            element("p", f"turn {step.turn}", class_="note"),
            element("pre", step.call, class_="call"),
            element("pre", step.result),
        )
        for step in plan[:MAX_CALLS]
    ]
    return element(
        "article",
        element("p", element("b", one_line(question_of(task), _MAX_TEXT_CHARS))),
        element("p", "Answer: ", element("b", one_line(answer_text(task), 300))),
        element("p", words, class_="note"),
        element(
            "details",
            element("summary", f"the plan: {counted(len(plan), 'call')}"),
            *calls,
            _rest(len(plan), MAX_CALLS, "call"),
        ),
        class_="task",
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Markup:
    """A table; whole numbers are right-aligned."""
    head = element("tr", *(element("th", name, scope="col") for name in heads))
    body = [element("tr", *_cells(row)) for row in rows]
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="wide")


def _cells(row: Sequence[Child]) -> Iterator[Markup]:
    for cell in row:
        yield element(
            "td",
            f"{cell:,}" if isinstance(cell, int) else cell,
            class_="number" if isinstance(cell, int) else None,
        )


def _rest(num: int, num_shown: int, noun: str) -> Markup:
    left = num - num_shown
    return (
        element("p", f"and {counted(left, f'more {noun}')} in report.json", class_="note")
        if left > 0
        else joined()
    )
