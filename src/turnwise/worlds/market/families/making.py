"""Make tasks over a world whose truth was seen to follow from a reference plan.

Each plan is executed twice, in two leases; both executions must have the same outcome.
"""

import asyncio
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from turnwise.tasks.proof.follow import answers_to
from turnwise.tasks.proof.verdict import Earns
from turnwise.tasks.proof.verification import Lease, Rejected, TaskDraft, verified
from turnwise.tasks.selection import SPLITS, split_of
from turnwise.types import Task, ToolCall
from turnwise.worlds.market.data.market import Market
from turnwise.worlds.market.families import FAMILIES
from turnwise.worlds.market.families.kit import HISTORY_LIMIT, Family, Material, SlackChannel

_MAX_DRAWS = 50
"""Consecutive draws without a new task after which a family counts as exhausted."""


@dataclass(frozen=True, slots=True)
class Made:
    """The verified and rejected tasks; `short` is the number of missing tasks by `family/split`."""

    tasks: tuple[Task, ...]
    rejected: tuple[Rejected, ...]
    short: Mapping[str, int]

    def of_split(self, split: str) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if task.split == split)


async def make_tasks(
    market: Market,
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

    async def verify(index: int, draft: TaskDraft) -> None:
        async with slots:
            outcomes[index] = await verified(draft, lease, servers, tools, earns)
        if on_progress is not None:
            on_progress(len(outcomes), len(drafts))

    try:
        async with asyncio.TaskGroup() as group:
            for index, draft in enumerate(drafts):
                group.create_task(verify(index, draft))
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
    market: Market,
    channels: Sequence[SlackChannel],
    counts: Mapping[str, int],
    seed: int,
    families: Mapping[str, Family],
) -> tuple[list[TaskDraft], dict[str, int]]:
    """Draw cases until there are enough, and count the missing ones by `family/split`.

    Each family and split has its own random generator: a larger count of one does not change another.
    """
    drafts: list[TaskDraft] = []
    short: dict[str, int] = {}
    for split in SPLITS:
        companies = [company for company in market.companies() if split_of(company.symbol) == split]
        for family in families.values():
            rng = random.Random(f"{seed}/{family.name}/{split}")  # noqa: S311  # tasks, not secrets
            material = Material(market, companies, channels, rng)
            drawn = _draw(family, split, material, counts.get(split, 0), seed)
            drafts.extend(drawn)
            if len(drawn) < counts.get(split, 0):
                short[f"{family.name}/{split}"] = counts[split] - len(drawn)
    return drafts, short


def _draw(family: Family, split: str, material: Material, count: int, seed: int) -> list[TaskDraft]:
    drawn: dict[str, TaskDraft] = {}
    num_unused = 0
    while len(drawn) < count and num_unused < _MAX_DRAWS:
        num_unused += 1
        wordings = (family.phrasings_for(split), *family.follow_ups_for(split))
        phrasings = [material.pick(wording) for wording in wordings]
        try:
            case = family.draft(material)
        except LookupError:
            continue
        messages = tuple(
            f"{phrasing.format(**case.words)} {exchange.form}"
            for phrasing, exchange in zip(phrasings, case.exchanges, strict=True)
        )
        if messages[0] not in drawn:
            task_id = f"{family.name}-{split}-{len(drawn) + 1:04d}"
            drawn[messages[0]] = TaskDraft(
                task_id,
                family.name,
                split,
                family.difficulty,
                family.servers,
                family.required_tools,
                messages,
                case,
                seed,
            )
            num_unused = 0
    return list(drawn.values())
