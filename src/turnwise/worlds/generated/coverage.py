"""The table of coverage: how often tasks of worlds have each feature of schemas and each turn of events."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from turnwise.types import Task, ToolCall, ToolResult
from turnwise.worlds.generated.world import named_world

Schema = Mapping[str, Any]


def coverage(tasks: Iterable[Task]) -> dict[str, dict[str, float]]:
    """Return shares: of tasks by family, of calls by feature, of tasks by feature or event."""
    families: Counter[str] = Counter()
    features: Counter[str] = Counter()
    events: Counter[str] = Counter()
    num_tasks = num_calls = 0
    for task in tasks:
        num_tasks += 1
        families[task.family] += 1
        tools = named_world(task.servers[0]).tools
        schemas = {tool.name: tool.input_schema for tool in tools}
        readers = {tool.name for tool in tools if tool.operation.key in ("list", "get", "find")}
        calls = list(_calls(task))
        num_calls += len(calls)
        seen: set[str] = set()
        for call, result in calls:
            of_call = set(_features(call, result, schemas[call.name]))
            features.update(of_call)
            seen |= of_call
        events.update(seen.union(_events(task, calls, readers)))
    return {
        "families": _shares(families, num_tasks),
        "calls": _shares(features, num_calls),
        "tasks": _shares(events, num_tasks),
    }


def coverage_text(table: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table as Markdown."""
    titles = {"families": "Families, of all tasks", "calls": "Of all calls", "tasks": "Of all tasks"}
    parts = []
    for name, shares in table.items():
        rows = "\n".join(f"| {feature} | {share:.1%} |" for feature, share in shares.items())
        parts.append(f"| {titles[name]} | share |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


def _shares(counts: Counter[str], num: int) -> dict[str, float]:
    return {name: count / max(1, num) for name, count in sorted(counts.items())}


def _calls(task: Task) -> Iterator[tuple[ToolCall, ToolResult]]:
    for turn in task.demonstration:
        yield from zip(turn.calls, turn.results, strict=True)


def _features(call: ToolCall, result: ToolResult, schema: Schema) -> Iterator[str]:
    if not call.arguments:
        yield "no argument"
    yield from _of_object(call.arguments, schema, is_inner=False)
    if result.is_error:
        yield "an error"
    elif result.content.startswith("no ") or "[]" in result.content or '"total": 0' in result.content:
        yield "an empty result"


def _of_object(arguments: Mapping[str, Any], schema: Schema, *, is_inner: bool) -> Iterator[str]:
    required = schema.get("required", ())
    for name, declared in schema.get("properties", {}).items():
        if name not in arguments:
            yield "an optional argument left out"
            continue
        if name not in required:
            yield "an optional argument given"
        if "enum" in declared:
            yield "a declared choice"
        yield from _of_value(arguments[name], declared)
    if is_inner:
        yield "a nested object"


def _of_value(value: Any, declared: Schema) -> Iterator[str]:
    match value:
        case bool():
            yield f"a boolean, {str(value).lower()}"
        case int() if declared.get("type") == "integer":
            yield "an integer"
        case int() | float():
            yield "a number"
        case list() if any(isinstance(item, Mapping) for item in value):
            yield "a list of objects"
        case list():
            yield "a list"
        case Mapping():
            yield from _of_object(value, declared, is_inner=True)
        case str() if len(value) == 10 and value[4] == value[7] == "-":
            yield "a date"


def _events(task: Task, calls: list[tuple[ToolCall, ToolResult]], readers: Collection[str]) -> Iterator[str]:
    num_messages = 1 + len(task.conversation)
    yield f"{num_messages} message{'s' * (num_messages > 1)}"
    yield f"{_span(len(calls))} calls"
    if task.user is not None:
        yield "a question to the user"
    if any(len(turn.calls) > 1 for turn in task.demonstration):
        yield "several calls in one turn"
    for place, (call, result) in enumerate(calls):
        if result.is_error:
            yield _way_out(call, calls[place + 1 :], readers)


def _span(num: int) -> str:
    spans = ((0, "no"), (1, "1"), (2, "2"), (4, "3 or 4"), (40, "5 or more"))
    return next(name for most, name in spans if num <= most)


def _way_out(refused: ToolCall, later: list[tuple[ToolCall, ToolResult]], readers: Collection[str]) -> str:
    """Return how the plan goes on after an error."""
    again = [call for call, result in later if call.name == refused.name and not result.is_error]
    if not again:
        return "stops after an error"
    if later[0][0].name == refused.name:
        return "mends the call after an error"
    return "looks up after an error" if later[0][0].name in readers else "does what an error names"
