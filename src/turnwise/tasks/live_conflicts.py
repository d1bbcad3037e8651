"""The rule for tasks on live servers: the truth must hold there, and every tool it needs must be offered."""

from collections.abc import Iterable, Iterator, Sequence

from turnwise.types import LiveServer, Task

EMBEDDED_WORLD = "embedded"
"""`Task.world` of a task whose truth was computed in the synthetic world."""
WORLDS = (EMBEDDED_WORLD,)


def live_conflicts(task: Task, live: Sequence[LiveServer]) -> Iterator[tuple[str, str]]:
    """Yield each reason why this task cannot be played with these live servers, as (field, message)."""
    for server in live:
        if task.servers and server.name not in task.servers:
            continue
        if task.world == EMBEDDED_WORLD:
            yield (
                "world",
                f"task {task.id!r} is of the embedded world, and server {server.name!r} is live "
                f"({server.service}): leave it out of tools.live, or use other tasks",
            )
        for tool in server.withheld:
            if {tool, f"{server.name}__{tool}"} & _needed_tools(task):
                yield (
                    "truth",
                    f"task {task.id!r} needs {tool}, which is withheld: server {server.name!r} is live and "
                    f'may not write; tools.live_writes = ["{server.name}"] allows it',
                )


def check_worlds(tasks: Iterable[Task], live: Sequence[LiveServer]) -> None:
    """Raise ValueError if live servers rule out a task; it names the first and counts the others."""
    conflicts = [(task.id, message) for task in tasks for _, message in live_conflicts(task, live)]
    if conflicts:
        (_, message), num_more = conflicts[0], len({task_id for task_id, _ in conflicts}) - 1
        more = f" (and {num_more} more such tasks)" if num_more else ""
        raise ValueError(f"{message}{more}")


def _needed_tools(task: Task) -> set[str]:
    """Return the tools without which the task or its demonstration cannot succeed."""
    return {
        *(name for truth in task.truths for name in (*truth.required_tools, *truth.milestones)),
        *(truth.ends_with for truth in task.truths if truth.ends_with),
        *(write.tool for truth in task.truths for write in truth.writes or ()),
        *(probe.tool for truth in task.truths for probe in truth.probes),
        *(call.name for turn in task.demonstration for call in turn.calls),
    }
