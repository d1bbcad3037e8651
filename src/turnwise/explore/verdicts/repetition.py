"""Play the plans of accepted tasks once more in fresh sessions: do they still hold, and what do they read?"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from turnwise.explore.verdicts.refusal import NOT_SEEN, SERVER_FAILED, THERE_BEFORE
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.tasks.proof.follow import PlanFailed, PlanRun, ToolsDown, all_hold, answers_to, asked
from turnwise.types import Task
from turnwise.types.protocols import Toolbox

_PER_SESSION = 16
_NUM_PARALLEL = 4

DATA_CHANGED = "the data has changed"


@dataclass(frozen=True, slots=True)
class PlayedCall:
    """A call that was made, and the text of its answer."""

    tool: str
    arguments: dict[str, object]
    content: str


@dataclass(frozen=True, slots=True)
class Repetition:
    """One more execution of a task's plan."""

    task: Task
    why_not: str = ""
    """Why the task does not hold any more; empty if it does."""
    calls: tuple[PlayedCall, ...] = ()
    """The calls of the plan and then of the probes."""


def played_calls(task: Task, played: PlanRun) -> tuple[PlayedCall, ...]:
    """Return the calls of a plan and of the probes after it."""
    made = [
        (call.name, call.arguments, result)
        for turn in played.demonstration
        for call, result in zip(turn.calls, turn.results, strict=True)
    ]
    if played.probe_answers:
        probes = zip(task.truth.probes, played.probe_answers, strict=True)
        made += [(probe.tool, probe.arguments, answer) for probe, answer in probes]
    return tuple(PlayedCall(name, dict(arguments), answer.content) for name, arguments, answer in made)


async def repeat(
    tasks: Sequence[Task], pool: Pool, name: str, on_progress: Callable[[str], None]
) -> list[Repetition]:
    """Repeat the plans; a plan that changes something has a session of its own.

    A session that breaks is not held against the plans in it: they are repeated one by one.
    """
    slots = asyncio.Semaphore(_NUM_PARALLEL)
    found: dict[str, Repetition] = {}

    async def play(batch: Sequence[Task], episode_id: str) -> None:
        async with slots:
            for repetition in await _in_one_session(batch, pool, episode_id):
                found[repetition.task.id] = repetition

    batches = _batches(tasks)
    await asyncio.gather(*(play(batch, f"{name}/{number}") for number, batch in enumerate(batches)))
    broken = [task for task in tasks if found[task.id].why_not == SERVER_FAILED]
    await asyncio.gather(*(play([task], f"{name}/alone/{task.id}") for task in broken))
    on_progress(f"{name}: {sum(not it.why_not for it in found.values())} of {len(tasks)} tasks hold")
    return [found[task.id] for task in tasks]


def _batches(tasks: Sequence[Task]) -> list[list[Task]]:
    alone = [[task] for task in tasks if task.truth.probes]
    readers: dict[tuple[str, ...], list[Task]] = {}
    for task in tasks:
        if not task.truth.probes:
            readers.setdefault(task.servers, []).append(task)
    shared = [
        group[start : start + _PER_SESSION]
        for group in readers.values()
        for start in range(0, len(group), _PER_SESSION)
    ]
    return [*shared, *alone]


async def _in_one_session(tasks: Sequence[Task], pool: Pool, episode_id: str) -> list[Repetition]:
    played: list[Repetition] = []
    try:
        async with pool.lease(tasks[0].servers, episode_id) as toolbox:
            for task in tasks:
                played.append(await _repeated(task, toolbox))  # noqa: PERF401 (a lost server keeps the rest)
    except (ConnectFailed, ToolsDown):
        played += [Repetition(task, SERVER_FAILED) for task in tasks[len(played) :]]
    return played


async def _repeated(task: Task, toolbox: Toolbox) -> Repetition:
    """Play one plan; ToolsDown if a server fails."""
    probes, calls = task.truth.probes, []
    changed = [replace(probe, equals="") for probe in probes]
    try:
        if probes and all_hold(changed, await asked(changed, toolbox)):
            return Repetition(task, THERE_BEFORE)
        for turn in task.demonstration:
            answers = await answers_to(turn.calls, toolbox) if turn.calls else []
            for call, shown, answer in zip(turn.calls, turn.results, answers, strict=True):
                # The same results give the same answer. What a change answers may hold a new id.
                if not probes and answer.content != shown.content:
                    return Repetition(task, DATA_CHANGED)
                calls.append(PlayedCall(call.name, dict(call.arguments), answer.content))
        answers = await asked(probes, toolbox) if probes else []
        if not all_hold(probes, answers):
            return Repetition(task, DATA_CHANGED if all_hold(changed, answers) else NOT_SEEN)
        calls += [
            PlayedCall(probe.tool, dict(probe.arguments), answer.content)
            for probe, answer in zip(probes, answers, strict=True)
        ]
    except PlanFailed:
        return Repetition(task, "the plan fails when repeated")
    return Repetition(task, "", tuple(calls))
