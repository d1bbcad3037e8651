"""Verify a drawn task: follow its plan twice on real servers, and derive its truth from the results."""

import math
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Protocol

from turnwise.tasks.live_conflicts import EMBEDDED_WORLD
from turnwise.tasks.proof.case import Case, Conclusion, Exchange
from turnwise.tasks.proof.conversation_cheats import conversation_cheats
from turnwise.tasks.proof.follow import ExchangeRun, PlanFailed, PlanRun, changes, exchanges_of, follow, holds
from turnwise.tasks.proof.verdict import (
    Cheat,
    Earns,
    episode_of,
    idle_cheats,
    needless_calls,
    shortened,
    why_unsound,
)
from turnwise.types import (
    Difficulty,
    ExpectedWrite,
    FollowUp,
    Message,
    ScriptedUser,
    Task,
    Tool,
    ToolCall,
    ToolResult,
    Truth,
)
from turnwise.types.protocols import Toolbox


class Lease(Protocol):
    """Leases the tools of some servers for one episode, as `Pool.lease` does."""

    def __call__(
        self, servers: Sequence[str], episode_id: str, /
    ) -> AbstractAsyncContextManager[Toolbox]: ...


class WorldMismatch(Exception):
    """The tools and the world behind them disagree on an answer: no task can be trusted."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A drawn task that failed verification."""

    task_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class TaskDraft:
    """A drawn task before verification."""

    task_id: str
    family: str
    split: str
    difficulty: Difficulty
    servers: tuple[str, ...]
    required_tools: tuple[str, ...]
    """Tools that the prompt asks for: an answer given without calling them was guessed."""
    messages: tuple[str, ...]
    """The prompt, then the further user messages."""
    case: Case
    seed: int
    world: str = EMBEDDED_WORLD
    """As `Task.world`."""
    max_turns: int | None = None


async def verified(
    draft: TaskDraft,
    lease: Lease,
    servers: Sequence[str] | None,
    tools: Sequence[str] | None,
    earns: Earns | None,
) -> Task | Rejected:
    """Return the task if its plan has the same, right outcome in two leases and no cheat earns its reward.

    Arguments as for `make_tasks`. Raises WorldMismatch and ToolsDown.
    """
    offered = tuple(servers or draft.servers)
    try:
        async with lease(offered, f"{draft.task_id}/first") as toolbox:
            known = tuple(toolbox.tools)
            first = await _follow_checking(draft, toolbox)
        async with lease(offered, f"{draft.task_id}/second") as toolbox:
            second = await _follow_again(draft.case, first, toolbox)
        guesses = []
        for number, case in enumerate(draft.case.guesses):
            async with lease(offered, f"{draft.task_id}/guess{number}") as toolbox:
                guesses.append(("a guess", (await follow(case, toolbox)).demonstration))
    except PlanFailed as error:
        return Rejected(draft.task_id, str(error))
    for once, again in zip(first.conclusions, second.conclusions, strict=True):
        if once != again:
            answers = f"{once.answer.value!r}, then {again.answer.value!r}"
            return Rejected(draft.task_id, f"the plan does not reproduce its truth: {answers}")
    task = _told(_task(draft, first, offered, tools), known)
    needed = {
        name for truth in task.truths for name in (*truth.milestones, *(probe.tool for probe in truth.probes))
    }
    withheld = sorted(name for name in needed if not _fits(name, task.leased_tools))
    if withheld:
        return Rejected(draft.task_id, f"{withheld[0]} is needed and not offered")
    cheats = [*_cheats(draft.case, first, known), *guesses]
    why = "" if earns is None else why_unsound(task, (first, second), known, cheats, earns)
    return Rejected(draft.task_id, why) if why else task


def _cheats(case: Case, played: PlanRun, tools: Sequence[Tool]) -> list[Cheat]:
    """Return what must earn nothing. A plan of one message may make calls that its prompt leaves open."""
    writers = {tool.name for tool in tools if not tool.is_read_only}

    def is_needed(call: ToolCall, result: ToolResult) -> bool:
        return not case.are_reads_open or (call.name in writers and not result.is_error)

    if case.later:
        return list(conversation_cheats([exchange.turns for exchange in played.exchanges], is_needed))
    has_needed = case.question is not None or case.are_reads_open
    return [
        *idle_cheats(played),
        *(shortened(played, is_needed) if has_needed else ()),
        *needless_calls(played, case.forbidden_tools),
    ]


def _fits(name: str, patterns: Sequence[str] | None) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


async def _follow_checking(draft: TaskDraft, toolbox: Toolbox) -> PlanRun:
    """Follow the plan; raise unless every exchange changes what its truth expects and the world agrees."""
    played: list[ExchangeRun] = []
    async for exchange in exchanges_of(draft.case, toolbox):
        await _require_state(exchange, toolbox)
        _require_known(draft, len(played), exchange.conclusion)
        played.append(exchange)
    return PlanRun(tuple(played))


async def _follow_again(case: Case, first: PlanRun, toolbox: Toolbox) -> PlanRun:
    """Follow the plan; raise PlanFailed if the probe of an exchange holds before that exchange."""
    played: list[ExchangeRun] = []
    await _require_undone(first.exchanges[0], toolbox)
    async for exchange in exchanges_of(case, toolbox):
        played.append(exchange)
        if len(played) < len(first.exchanges):
            await _require_undone(first.exchanges[len(played)], toolbox)
    return PlanRun(tuple(played))


async def _require_undone(exchange: ExchangeRun, toolbox: Toolbox) -> None:
    for probe in exchange.conclusion.probes:
        if await holds(probe, toolbox):
            raise PlanFailed(f"the probe of {probe.tool} holds before anything was done")


async def _require_state(played: ExchangeRun, toolbox: Toolbox) -> None:
    """Raise PlanFailed unless the plan changed exactly what the truth expects, and the server shows it."""
    writes = changes(played, toolbox)
    expected = played.conclusion.writes
    if len(writes) != len(expected) or not all(map(_is_expected, writes, expected)):
        raise PlanFailed(f"the plan changes {writes!r}, the truth expects {expected!r}")
    for probe in played.conclusion.probes:
        if not await holds(probe, toolbox):
            still = f"still shows {probe.lacks!r}" if probe.lacks else f"does not show {probe.expected!r}"
            raise PlanFailed(f"{probe.tool} {still} after the plan")


def _is_expected(call: ToolCall, write: ExpectedWrite) -> bool:
    return call.name == write.tool and write.arguments.items() <= call.arguments.items()


def _require_known(draft: TaskDraft, message: int, conclusion: Conclusion) -> None:
    known, value = draft.case.exchanges[message].known, conclusion.answer.value
    if known is None:
        return
    if isinstance(known, str) or isinstance(value, str):
        is_same = known == value
    else:
        is_same = math.isclose(known, value, rel_tol=1e-9, abs_tol=1e-9)
    if not is_same:
        raise WorldMismatch(
            f"{draft.task_id}: the tools say {value!r}, the world says {known!r}, to: "
            f"{draft.messages[message]}"
        )


def _task(draft: TaskDraft, played: PlanRun, servers: tuple[str, ...], tools: Sequence[str] | None) -> Task:
    case = draft.case
    truths = [
        _truth(exchange, conclusion, exchange.required_tools if message else draft.required_tools)
        for message, (exchange, conclusion) in enumerate(zip(case.exchanges, played.conclusions, strict=True))
    ]
    rules = tuple(exchange.question.rule for exchange in case.exchanges if exchange.question is not None)
    offered = tools if case.tools is None else case.tools
    return Task(
        id=draft.task_id,
        prompt=(Message("user", draft.messages[0]),),
        servers=servers,
        tools=None if offered is None else tuple(offered),
        truth=truths[0],
        difficulty=draft.difficulty,
        seed=draft.seed,
        family=draft.family,
        split=draft.split,
        world=draft.world,
        max_turns=draft.max_turns,
        demonstration=played.demonstration,
        conversation=tuple(
            FollowUp(message, truth, exchange.tools)
            for message, truth, exchange in zip(draft.messages[1:], truths[1:], case.later, strict=True)
        ),
        user=ScriptedUser(rules) if rules else None,
    )


def _truth(exchange: Exchange, conclusion: Conclusion, required_tools: tuple[str, ...]) -> Truth:
    return Truth(
        answer=conclusion.answer,
        writes=conclusion.writes,
        probes=conclusion.probes,
        required_tools=required_tools,
        min_tool_calls=exchange.min_tool_calls,
        forbidden_tools=exchange.forbidden_tools,
        milestones=tuple(
            dict.fromkeys(step.tool for steps in exchange.turns for step in steps if not step.is_refused)
        ),
    )


def _told(task: Task, tools: Sequence[Tool]) -> Task:
    """Return the task with what its user says before each turn in the demonstration."""
    turns = episode_of(task, task.demonstration, tools, is_done=True).turns
    pairs = zip(task.demonstration, turns, strict=False)
    return replace(task, demonstration=tuple(replace(shown, user=turn.user) for shown, turn in pairs))
