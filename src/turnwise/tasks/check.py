"""Finds every problem of tasks that would make a run fail or a score a lie, given the tools that exist."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from turnwise.system.bounded_regex import is_match
from turnwise.tasks.live_conflicts import WORLDS, live_conflicts
from turnwise.tasks.load import PlacedTask, Problem, read
from turnwise.tasks.placeholders import placeholder_in
from turnwise.tasks.rows import shown
from turnwise.tasks.user_side import UserSide
from turnwise.types import (
    END_WORD,
    Answer,
    LiveServer,
    Matcher,
    ModelUser,
    ScriptedUser,
    Stop,
    Task,
    Tool,
    Truth,
)

Finding = tuple[str, str]
"""A field of a task, and what is wrong with it."""

WhyUnscorable = Callable[[Task], str | None]
"""Returns why the run's reward cannot score a task, or None if it can; see `rewards.why_unscorable`."""

_CALLS_PER_TURN = 8
"""The most tool calls that a model is expected to make in one turn."""


def check_files(
    paths: Sequence[Path],
    tools: Sequence[Tool],
    why_unscorable: WhyUnscorable,
    live: Sequence[LiveServer] = (),
) -> list[Problem]:
    """Check files together, as the splits of one dataset; unreadable rows are reported as problems."""
    tool_servers = {tool.name: tool.server for tool in tools}
    items = [item for path in paths for item in read(path, tool_servers=tool_servers)]
    unreadable = [item for item in items if isinstance(item, Problem)]
    placed = [item for item in items if isinstance(item, PlacedTask)]
    order = {str(path): number for number, path in enumerate(paths)}
    problems = [*unreadable, *check(placed, tools, why_unscorable, live)]
    return sorted(problems, key=lambda problem: (order[problem.file], problem.row))


def check(
    placed: Sequence[PlacedTask],
    tools: Sequence[Tool],
    why_unscorable: WhyUnscorable,
    live: Sequence[LiveServer] = (),
) -> list[Problem]:
    """Return the problems within each task and between tasks, given the tools of all servers."""
    shelf = _Shelf(tools, live)
    alone = [
        Problem(item.file, item.row, field, message)
        for item in placed
        for field, message in _findings(item.task, shelf.seen_from(item.task), why_unscorable)
    ]
    return [*alone, *_between(placed)]


class _Shelf:
    """The available tools by name, and their servers."""

    def __init__(self, tools: Sequence[Tool], live: Sequence[LiveServer] = ()) -> None:
        self.by_name = {tool.name: tool for tool in tools}
        self._tools = tools
        self._seen: dict[tuple[str, ...], _Shelf] = {}
        self.live = live
        self.withheld = {name for server in live for name in server.withheld}
        self.servers = tuple(dict.fromkeys(tool.server for tool in tools))

    def seen_from(self, task: Task) -> "_Shelf":
        """Return the shelf where a name that several servers have is that of the task's own servers."""
        if task.servers not in self._seen:
            own = [tool for tool in self._tools if tool.server in task.servers]
            self._seen[task.servers] = _Shelf((*self._tools, *own), self.live) if own else self
        return self._seen[task.servers]

    def unknown(self, name: str) -> str:
        return f"no server has a tool {name!r}{_nearest(name, self.by_name)}"

    def is_matched(self, pattern: str) -> bool:
        is_withheld = any(fnmatchcase(name, pattern) for name in self.withheld)
        return is_withheld or any(tool.is_named_by([pattern]) for tool in self.by_name.values())

    def is_offered(self, task: Task, tool: Tool) -> bool:
        """Return whether the task's episodes offer this tool; a task that names no servers allows all."""
        on_server = not task.servers or tool.server in task.servers
        return on_server and tool.is_named_by(task.leased_tools)


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name[:200], names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names) or 'none'}"


def _findings(task: Task, shelf: _Shelf, why_unscorable: WhyUnscorable) -> Iterator[Finding]:
    if unwritten := placeholder_in(task):
        yield unwritten
        return
    if not task.id.strip():
        yield "id", "is empty"
    if task.max_turns is not None and task.max_turns < 1:
        yield "max_turns", f"must be 1 or more, got {task.max_turns}"
    for index, server in enumerate(task.servers):
        if server not in shelf.servers:
            yield f"servers.{index}", f"unknown server {server!r}{_nearest(server, shelf.servers)}"
    yield from _patterns("tools", task.tools, shelf)
    if task.world and task.world not in WORLDS:
        yield "world", f"unknown world {task.world!r}{_nearest(task.world, WORLDS)}"
    yield from live_conflicts(task, shelf.live)
    why = why_unscorable(task)
    if why is not None:
        yield "truth", why
    yield from _prompt(task)
    for message in range(len(task.truths)):
        place = f"conversation.{message - 1}." if message else ""
        yield from ((f"{place}{field}", said) for field, said in _exchange(task, message, shelf))
    for index, follow_up in enumerate(task.conversation):
        if not follow_up.message.strip():
            yield f"conversation.{index}.message", "is empty"
        yield from _patterns(f"conversation.{index}.tools", follow_up.tools, shelf)
    if task.user is not None:
        yield from _user(task.user)
    yield from _demonstration(task, shelf)


def _patterns(field: str, patterns: Sequence[str] | None, shelf: _Shelf) -> Iterator[Finding]:
    for index, pattern in enumerate(patterns or ()):
        if not shelf.is_matched(pattern):
            yield f"{field}.{index}", shelf.unknown(pattern)


def _exchange(task: Task, message: int, shelf: _Shelf) -> Iterator[Finding]:
    """Check the truth of one user message, as that of a task with the tools that are offered then."""
    own = replace(
        task,
        truth=task.truths[message],
        tools=task.tools_at(message),
        max_turns=task.turn_limit,
        conversation=(),
    )
    yield from _truth(own.truth)
    yield from _reachable(own, shelf)
    yield from _named_tools(own, shelf)
    yield from _writes(own, shelf)
    # A probe may use a tool that is offered with another message.
    yield from _probes(replace(own, tools=task.leased_tools), shelf)


def _user(user: ScriptedUser | ModelUser) -> Iterator[Finding]:
    if isinstance(user, ScriptedUser):
        yield from _rules(user)
        return
    for field, text in (("persona", user.persona), ("goal", user.goal)):
        if not text.strip():
            yield f"user.{field}", "is empty"
        if END_WORD in text:
            yield f"user.{field}", f"contains {END_WORD}, which ends the conversation: leave it out"


def _rules(user: ScriptedUser) -> Iterator[Finding]:
    for index, rule in enumerate(user.rules):
        field = f"user.rules.{index}"
        if not rule.say.strip():
            yield f"{field}.say", "is empty"
        try:
            matches_all = is_match(rule.when, "", is_whole=False)
        except ValueError as error:
            yield f"{field}.when", f"{error}: {shown(rule.when)}"
            continue
        if matches_all:
            yield f"{field}.when", f"matches every text, so that an answer ends nothing: {shown(rule.when)}"


def _prompt(task: Task) -> Iterator[Finding]:
    if not task.prompt or task.prompt[-1].role != "user":
        yield "prompt", "must end with a user message: the model answers it"
    for index, message in enumerate(task.prompt):
        if message.role not in ("system", "user", "assistant"):
            yield f"prompt.{index}.role", f"expected system, user or assistant, got {message.role!r}"
        if not message.content.strip():
            yield f"prompt.{index}.content", "is empty"


def _truth(truth: Truth) -> Iterator[Finding]:
    if truth.answer is not None:
        yield from ((f"truth.answer.{field}", message) for field, message in _answer(truth.answer))
    for name in sorted(set(truth.required_tools) & set(truth.forbidden_tools)):
        yield "truth.forbidden_tools", f"{name!r} is required too"
    if truth.ends_with and truth.answer is not None:
        yield "truth.ends_with", "a call ends it, so it has no answer in words: leave `answer` out"
    if truth.ends_with and truth.ends_with in truth.forbidden_tools:
        yield "truth.forbidden_tools", f"{truth.ends_with!r} must be called to end it"


def _reachable(task: Task, shelf: _Shelf) -> Iterator[Finding]:
    """Check that the required calls fit into the turns before the answer, and that a tool is offered."""
    least = max(task.truth.min_tool_calls, len(task.truth.required_tools))
    most = (task.turn_limit - 1) * _CALLS_PER_TURN
    if least > most:
        yield "truth", f"asks for {least} calls, and {task.turn_limit} turns leave room for {most}"
    if task.truth.min_tool_calls and not any(shelf.is_offered(task, tool) for tool in shelf.by_name.values()):
        yield "truth.min_tool_calls", f"is {task.truth.min_tool_calls}, and the task is offered no tool"


def _answer(answer: Answer) -> Iterator[Finding]:
    value = answer.value
    match answer.matcher:
        case Matcher.NUMERIC:
            is_finite = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
            if isinstance(value, bool) or not is_finite:
                yield "value", f"numeric needs a finite number, got {shown(value)}"
            if not math.isfinite(answer.deviation) or answer.deviation < 0:
                yield "tolerance", f"must be 0 or more, got {answer.deviation}"
        case Matcher.ONE_OF:
            if not isinstance(value, list | tuple) or not value or not all(map(_is_text, value)):
                yield "value", f"one_of needs a list of texts, got {shown(value)}"
        case Matcher.REGEX:
            yield from _regex(value)
        case Matcher.JSON_SUBSET:
            if value is None or value in ({}, []):
                yield "value", f"json_subset needs something to hold, got {shown(value)}"
        case _:
            if not _is_text(value):
                yield "value", f"{answer.matcher} needs a text, got {shown(value)}"
    if answer.unit and answer.matcher is not Matcher.NUMERIC:
        yield "unit", f"only numeric answers have one, got {answer.unit!r}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _regex(value: object) -> Iterator[Finding]:
    if not isinstance(value, str) or not value:
        yield "value", f"regex needs a pattern, got {shown(value)}"
        return
    try:
        pattern = re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        yield "value", f"not a regular expression: {error}: {shown(value)}"
        return
    if pattern.fullmatch(""):
        yield "value", f"matches the empty answer: {shown(value)}"


def _named_tools(task: Task, shelf: _Shelf) -> Iterator[Finding]:
    truth = task.truth
    for field, names in (
        ("required_tools", truth.required_tools),
        ("milestones", truth.milestones),
    ):
        for index, name in enumerate(names):
            yield from _offered(f"truth.{field}.{index}", name, task, shelf)
    if truth.ends_with:
        yield from _offered("truth.ends_with", truth.ends_with, task, shelf)
    for index, name in enumerate(truth.forbidden_tools):
        if name not in shelf.by_name:
            yield f"truth.forbidden_tools.{index}", shelf.unknown(name)


def _offered(field: str, name: str, task: Task, shelf: _Shelf) -> Iterator[Finding]:
    tool = shelf.by_name.get(name)
    if name in shelf.withheld:
        return  # `live_conflicts` reports it with the reason
    if tool is None:
        yield field, shelf.unknown(name)
    elif not shelf.is_offered(task, tool):
        yield field, f"{name!r} (of server {tool.server!r}) is not among the task's servers and tools"


def _writes(task: Task, shelf: _Shelf) -> Iterator[Finding]:
    for index, write in enumerate(task.truth.writes or ()):
        field = f"truth.writes.{index}"
        yield from _call(field, "tool", write.tool, write.arguments, task, shelf, is_whole=False)
        tool = shelf.by_name.get(write.tool)
        if tool is not None and tool.is_read_only:
            yield f"{field}.tool", f"{write.tool!r} is read-only: no call to it ever counts as a change"


def _probes(task: Task, shelf: _Shelf) -> Iterator[Finding]:
    for index, probe in enumerate(task.truth.probes):
        field = f"truth.probes.{index}"
        yield from _call(field, "tool", probe.tool, probe.arguments, task, shelf, is_whole=True)
        if not probe.contains.strip() and not probe.lacks.strip() and not probe.equals.strip():
            yield f"{field}.contains", "is empty, and every answer contains that"
        elif probe.equals and not probe.accepts(probe.equals, is_error=False):
            yield f"{field}.equals", "does not fit `contains` and `lacks`: no answer can be all of it"
        elif probe.lacks and probe.lacks in probe.contains:
            yield f"{field}.lacks", "is a part of `contains`: no answer can have one and lack the other"


def _call(
    field: str,
    name_field: str,
    name: str,
    arguments: Mapping[str, Any],
    task: Task,
    shelf: _Shelf,
    *,
    is_whole: bool,
) -> Iterator[Finding]:
    """Check that the tool is offered and knows the arguments; a whole call must have all required ones."""
    yield from _offered(f"{field}.{name_field}", name, task, shelf)
    tool = shelf.by_name.get(name)
    properties = tool.input_schema.get("properties") if tool is not None else None
    if tool is None or not isinstance(properties, Mapping):
        return
    if tool.input_schema.get("additionalProperties") in (None, False):
        for key in arguments:
            if key not in properties:
                hint = _nearest(key, properties)
                yield f"{field}.arguments.{key}", f"{name} has no such argument{hint}"
    if is_whole:
        for key in tool.input_schema.get("required", ()):
            if key not in arguments:
                yield f"{field}.arguments", f"{name} needs {key!r}"


def _demonstration(task: Task, shelf: _Shelf) -> Iterator[Finding]:
    turns = task.demonstration
    if not turns:
        return
    if len(turns) > task.turn_limit:
        yield "demonstration", f"has {len(turns)} turns; the task allows {task.turn_limit}"
    yield from _course(task, shelf)
    for number, turn in enumerate(turns):
        field = f"demonstration.{number}"
        is_answered = [call.id for call in turn.calls] == [result.call_id for result in turn.results]
        if not is_answered and not turn.lacks_results:  # without any results, the calls can be made later
            yield f"{field}.results", "must answer the turn's calls, one each, in their order"
        for index, call in enumerate(turn.calls):
            place = f"{field}.calls.{index}"
            yield from _call(place, "name", call.name, call.arguments, task, shelf, is_whole=True)


def _course(task: Task, shelf: _Shelf) -> Iterator[Finding]:
    """Check that a demonstration ends where the task's user ends it, and that the user says what it says."""
    if task.user is not None and any(_user(task.user)):
        return  # reported already; the user cannot be played
    user = UserSide(task, tuple(shelf.by_name.values()))
    said = ""
    for number, turn in enumerate(task.demonstration):
        field = f"demonstration.{number}"
        is_last = number == len(task.demonstration) - 1
        if turn.user and turn.user != said:
            yield (
                f"{field}.user",
                f"the task's user says {shown(said)} here" if said else "no user speaks here",
            )
        for call in turn.calls:
            tool = shelf.by_name.get(call.name)
            if tool is not None and shelf.is_offered(task, tool) and tool not in user.tools:
                yield f"{field}.calls", f"{call.name!r} is not offered with message {user.message + 1}"
        ending, message = user.answer_shown(number)
        said = message.text if message is not None else ""
        if is_last and said:
            yield field, f"is not the end: the user continues with {shown(said)}"
        elif is_last and (ending is None or (not turn.calls and not turn.text.strip())):
            yield field, "must be an answer: text, and no calls"
        elif not is_last and ending is Stop.ENDED_BY_USER and not said:
            yield f"demonstration.{number + 1}.user", "is empty: a model plays the user, give its words here"
        elif not is_last and ending is not None and not said:
            yield f"{field}.calls", "a turn before the last one makes a call"


def _between(placed: Sequence[PlacedTask]) -> Iterator[Problem]:
    """Check that ids are unique and no prompt is in two splits: held-out tasks must be unseen."""
    by_id: dict[str, PlacedTask] = {}
    by_prompt: dict[tuple[str, ...], PlacedTask] = {}
    for item in placed:
        first = by_id.setdefault(item.task.id, item)
        if first is not item:
            message = f"{item.task.id!r} is the id of {_place(first)} too"
            yield Problem(item.file, item.row, "id", message)
        asked = (message.content for message in item.task.prompt)
        told = (follow_up.message for follow_up in item.task.conversation)
        words = tuple(" ".join(text.lower().split()) for text in (*asked, *told))
        same = by_prompt.setdefault(words, item)
        if same.task.split != item.task.split:
            message = f"{_place(same)} has the same prompt, in split {same.task.split!r}"
            yield Problem(item.file, item.row, "prompt", f"in split {item.task.split!r}: {message}")


def _place(item: PlacedTask) -> str:
    return f"{item.file}: row {item.row}"
