"""Make tasks over a world whose truth was seen to follow from a reference plan.

Each plan is executed twice, in two leases; both executions must have the same outcome.
"""

import asyncio
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Protocol

from turnwise.protocols import Toolbox
from turnwise.tasks.facts import MarketFacts
from turnwise.tasks.families import FAMILIES
from turnwise.tasks.family import (
    HISTORY_LIMIT,
    SPLITS,
    Case,
    Conclusion,
    Family,
    Material,
    SlackChannel,
    split_of,
)
from turnwise.tasks.plan import PlanFailed, PlanRun, answers_to, changes, follow, holds
from turnwise.tasks.verdict import Earns, idle_cheats, why_unsound
from turnwise.tasks.worlds import EMBEDDED_WORLD
from turnwise.types import ExpectedWrite, Message, Task, ToolCall, Truth

_MAX_DRAWS = 50
"""Consecutive draws without a new task after which a family counts as exhausted."""


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
class Made:
    """The verified and rejected tasks; `short` is the number of missing tasks by `family/split`."""

    tasks: tuple[Task, ...]
    rejected: tuple[Rejected, ...]
    short: Mapping[str, int]

    def of_split(self, split: str) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if task.split == split)


@dataclass(frozen=True, slots=True)
class _Draft:
    task_id: str
    family: Family
    split: str
    prompt: str
    case: Case
    seed: int


async def make_tasks(
    market: MarketFacts,
    lease: Lease,
    counts: Mapping[str, int],
    *,
    earns: Earns | None,
    seed: int = 0,
    families: Mapping[str, Family] = FAMILIES,
    servers: Sequence[str] | None = None,
    tools: Sequence[str] | None = None,
    num_parallel: int = 8,
    on_progress: Callable[[int, int], None] | None = None,
) -> Made:
    """Make `counts[split]` tasks of each family; the same seed gives the same tasks.

    `earns` is the reward that every plan must earn, and that an episode without a call must not. It is None
    for plans that err on purpose.
    A task is offered its family's servers, or `servers` if given, and on them the tools that match the
    patterns in `tools`, or all tools. `on_progress` gets the number of tasks checked and their total.
    Raises WorldMismatch if tools and world disagree, and ToolsDown if a server fails.
    """
    unknown = sorted(set(counts) - set(SPLITS))
    if unknown:
        raise ValueError(f"counts: unknown split {unknown[0]!r}; the splits are {', '.join(SPLITS)}")
    needs_channels = any("slack" in family.servers for family in families.values())
    channels = await _survey(lease) if needs_channels else ()
    drafts, short = _drafts(market, channels, counts, seed, families)
    outcomes: dict[int, Task | Rejected] = {}
    slots = asyncio.Semaphore(num_parallel)

    async def settle(index: int, draft: _Draft) -> None:
        async with slots:
            outcomes[index] = await _verify(draft, lease, servers, tools, earns)
        if on_progress is not None:
            on_progress(len(outcomes), len(drafts))

    try:
        async with asyncio.TaskGroup() as group:
            for index, draft in enumerate(drafts):
                group.create_task(settle(index, draft))
    except ExceptionGroup as failures:
        # The first is enough: the others report the same world or the same server.
        raise failures.exceptions[0] from failures
    ordered = [outcomes[index] for index in range(len(drafts))]
    return Made(
        tasks=tuple(outcome for outcome in ordered if isinstance(outcome, Task)),
        rejected=tuple(outcome for outcome in ordered if isinstance(outcome, Rejected)),
        short=short,
    )


async def _survey(lease: Lease) -> tuple[SlackChannel, ...]:
    """Return the channels as a fresh episode sees them: tasks can ask only about these messages."""
    async with lease(["slack"], "survey") as toolbox:
        [listed] = await answers_to([ToolCall("list", "list_slack_channels", {})], toolbox)
        channels: list[SlackChannel] = []
        for row in json.loads(listed.content):
            asked = {"channel_id": row["id"], "limit": HISTORY_LIMIT}
            [history] = await answers_to([ToolCall("read", "get_slack_channel_history", asked)], toolbox)
            channels.append(SlackChannel(row["id"], row["name"], _texts(history.content)))
    return tuple(channels)


def _texts(history: str) -> tuple[str, ...]:
    """Return the messages, or none if the history was truncated: no plan could parse it either."""
    try:
        return tuple(row["text"] for row in json.loads(history))
    except json.JSONDecodeError:
        return ()


def _drafts(
    market: MarketFacts,
    channels: Sequence[SlackChannel],
    counts: Mapping[str, int],
    seed: int,
    families: Mapping[str, Family],
) -> tuple[list[_Draft], dict[str, int]]:
    """Draw cases until there are enough, and count the missing ones by `family/split`.

    Each family and split has its own random generator: a larger count of one does not change another.
    """
    drafts: list[_Draft] = []
    short: dict[str, int] = {}
    for split in SPLITS:
        companies = [company for company in market.companies() if split_of(company.symbol) == split]
        for family in families.values():
            chance = random.Random(f"{seed}/{family.name}/{split}")  # noqa: S311  # tasks, not secrets
            material = Material(market, companies, channels, chance)
            drawn = _draw(family, split, material, counts.get(split, 0), seed)
            drafts.extend(drawn)
            if len(drawn) < counts.get(split, 0):
                short[f"{family.name}/{split}"] = counts[split] - len(drawn)
    return drafts, short


def _draw(family: Family, split: str, material: Material, count: int, seed: int) -> list[_Draft]:
    drawn: dict[str, _Draft] = {}
    num_vain = 0
    while len(drawn) < count and num_vain < _MAX_DRAWS:
        num_vain += 1
        phrasing = material.pick(family.phrasings_for(split))
        try:
            case = family.draft(material)
        except LookupError:
            continue
        prompt = f"{phrasing.format(**case.words)} {case.form}"
        if prompt not in drawn:
            task_id = f"{family.name}-{split}-{len(drawn) + 1:04d}"
            drawn[prompt] = _Draft(task_id, family, split, prompt, case, seed)
            num_vain = 0
    return list(drawn.values())


async def _verify(
    draft: _Draft,
    lease: Lease,
    servers: Sequence[str] | None,
    tools: Sequence[str] | None,
    earns: Earns | None,
) -> Task | Rejected:
    offered = tuple(servers or draft.family.servers)
    try:
        async with lease(offered, f"{draft.task_id}/first") as toolbox:
            known = tuple(toolbox.tools)
            first = await follow(draft.case, toolbox)
            await _require_state(first, toolbox)
        _require_known(draft, first.conclusion)
        async with lease(offered, f"{draft.task_id}/second") as toolbox:
            for probe in first.conclusion.probes:
                if await holds(probe, toolbox):
                    raise PlanFailed(f"the probe of {probe.tool} holds before anything was done")
            second = await follow(draft.case, toolbox)
    except PlanFailed as error:
        return Rejected(draft.task_id, str(error))
    if second.conclusion != first.conclusion:
        answers = f"{first.conclusion.answer.value!r}, then {second.conclusion.answer.value!r}"
        return Rejected(draft.task_id, f"the plan does not reproduce its truth: {answers}")
    task = _task(draft, first, offered, tools)
    needed = {*task.truth.milestones, *(probe.tool for probe in task.truth.probes)}
    withheld = sorted(name for name in needed if not _fits(name, tools))
    if withheld:
        return Rejected(draft.task_id, f"{withheld[0]} is needed and not offered")
    why = "" if earns is None else why_unsound(task, (first, second), known, idle_cheats(first), earns)
    return Rejected(draft.task_id, why) if why else task


def _fits(name: str, patterns: Sequence[str] | None) -> bool:
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


async def _require_state(played: PlanRun, toolbox: Toolbox) -> None:
    """Raise PlanFailed unless the plan changed exactly what the truth expects, and the server shows it."""
    made = changes(played, toolbox)
    expected = played.conclusion.writes
    if len(made) != len(expected) or not all(map(_is_expected, made, expected)):
        raise PlanFailed(f"the plan changes {made!r}, the truth expects {expected!r}")
    for probe in played.conclusion.probes:
        if not await holds(probe, toolbox):
            still = f"still shows {probe.lacks!r}" if probe.lacks else f"does not show {probe.contains!r}"
            raise PlanFailed(f"{probe.tool} {still} after the plan")


def _is_expected(call: ToolCall, write: ExpectedWrite) -> bool:
    return call.name == write.tool and write.arguments.items() <= call.arguments.items()


def _require_known(draft: _Draft, conclusion: Conclusion) -> None:
    known, value = draft.case.known, conclusion.answer.value
    if known is None:
        return
    if isinstance(known, str) or isinstance(value, str):
        is_same = known == value
    else:
        is_same = math.isclose(known, value, rel_tol=1e-9, abs_tol=1e-9)
    if not is_same:
        raise WorldMismatch(
            f"{draft.task_id}: the tools say {value!r}, the world says {known!r}, to: {draft.prompt}"
        )


def _task(draft: _Draft, played: PlanRun, servers: tuple[str, ...], tools: Sequence[str] | None) -> Task:
    plan_tools = [step.tool for steps in draft.case.turns for step in steps]
    conclusion = played.conclusion
    return Task(
        id=draft.task_id,
        prompt=(Message("user", draft.prompt),),
        servers=servers,
        tools=None if tools is None else tuple(tools),
        truth=Truth(
            answer=conclusion.answer,
            writes=conclusion.writes,
            probes=conclusion.probes,
            required_tools=draft.family.required_tools,
            milestones=tuple(dict.fromkeys(plan_tools)),
        ),
        difficulty=draft.family.difficulty,
        seed=draft.seed,
        family=draft.family.name,
        split=draft.split,
        world=EMBEDDED_WORLD,
        demonstration=played.demonstration,
    )
