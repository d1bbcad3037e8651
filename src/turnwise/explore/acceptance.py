"""Verify drafts in batches and keep those that are tasks, until there are enough or time is up."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from turnwise.explore.draft import Draft
from turnwise.explore.splits import combination, question_for, split_for
from turnwise.explore.verdicts import CommonAnswers, Proven, Refusal, judge, prove, truth_of
from turnwise.mcp.pool import Pool
from turnwise.types import Message, Task

_PER_SESSION = 16
"""Plans that share two sessions. In the second their order is reversed, so none may need another."""
_PER_ROUND = 64
_NUM_PARALLEL = 4


@dataclass(frozen=True, slots=True)
class Origin:
    """What an accepted task was made of: a later exploration keeps its split apart by this."""

    entities: tuple[str, ...]
    combination: str
    is_reworded: bool = False
    """Whether a language model worded its question."""


@dataclass(slots=True)
class Accepted:
    """The tasks so far, and why other drafts were rejected."""

    tasks: list[Task] = field(default_factory=list)
    origins: dict[str, Origin] = field(default_factory=dict)
    """By task id."""
    rejected: dict[str, str] = field(default_factory=dict)
    """The reason by the id that the task would have had."""
    rejections: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    common: CommonAnswers = field(default_factory=CommonAnswers)

    def reject(self, draft: Draft, refusal: Refusal) -> None:
        self.rejections[refusal.reason] += 1
        self.rejected[task_id(draft)] = refusal.reason
        details = f" ({refusal.details})" if refusal.details else ""
        self.examples.setdefault(refusal.reason, f"{draft.questions[0]}{details}"[:400])


@dataclass(frozen=True, slots=True)
class Target:
    """When to stop."""

    num_tasks: int
    deadline: float
    """A time of `time.monotonic()`."""
    per_kind: int
    """The most tasks of one shape with the same tools."""


async def accept(
    drafts: Sequence[Draft],
    pool: Pool,
    held_out: Sequence[str],
    target: Target,
    accepted: Accepted,
    on_progress: Callable[[str], None],
) -> None:
    """Verify the drafts in order and add the tasks to `accepted`, which is whole whenever this is stopped."""
    slots = asyncio.Semaphore(_NUM_PARALLEL)
    kinds = Counter((task.family, *called_tools(task)) for task in accepted.tasks)
    pending = [(draft, split) for draft in drafts if (split := _split(draft, held_out, accepted))]
    place = 0
    while place < len(pending):
        if len(accepted.tasks) >= target.num_tasks or time.monotonic() > target.deadline:
            return
        chosen: list[tuple[Draft, str]] = []
        while place < len(pending) and len(chosen) < _PER_ROUND:
            draft, split = pending[place]
            place += 1
            if kinds[(draft.shape, *draft.tools)] < target.per_kind:
                kinds[(draft.shape, *draft.tools)] += 1
                chosen.append((draft, split))
        batches = _batches([draft for draft, _ in chosen])

        async def verified(batch: list[Draft]) -> list[Proven | Refusal]:
            async with slots:
                return await prove(batch, pool, f"verify/{batch[0].key}")

        outcomes = await asyncio.gather(*(verified(batch) for batch in batches))
        verdicts = {
            draft.key: outcome
            for batch, found in zip(batches, outcomes, strict=True)
            for draft, outcome in zip(batch, found, strict=True)
        }
        for draft, split in chosen:
            if len(accepted.tasks) >= target.num_tasks:
                break
            if not _settle(draft, split, verdicts[draft.key], accepted):
                kinds[(draft.shape, *draft.tools)] -= 1
        on_progress(f"verified: {len(accepted.tasks)} tasks of {place} programs")


def _split(draft: Draft, held_out: Sequence[str], accepted: Accepted) -> str:
    split = split_for(draft, held_out)
    if not split:
        accepted.reject(draft, Refusal("its entities belong to another split"))
    return split


def _batches(drafts: Sequence[Draft]) -> list[list[Draft]]:
    """Group plans that share sessions: those that only read by servers, those that change by tools too."""
    groups: dict[tuple[str, ...], list[Draft]] = {}
    for draft in drafts:
        key = (*draft.servers, *draft.tools) if draft.changes_state else draft.servers
        groups.setdefault(key, []).append(draft)
    return [
        group[start : start + _PER_SESSION]
        for group in groups.values()
        for start in range(0, len(group), _PER_SESSION)
    ]


def _settle(draft: Draft, split: str, outcome: Proven | Refusal, accepted: Accepted) -> bool:
    """Add the task, or count why the draft is none."""
    if isinstance(outcome, Refusal):
        accepted.reject(draft, outcome)
        return False
    task = task_of(outcome, split)
    refusal = judge(outcome, task)
    if refusal is None and accepted.common.is_common(outcome):
        refusal = Refusal("its answer is common among tasks of its kind")
    if refusal is not None:
        accepted.reject(draft, refusal)
        return False
    accepted.tasks.append(task)
    accepted.origins[task.id] = Origin(draft.entities, combination(draft))
    return True


def task_id(draft: Draft) -> str:
    """Return the id of the draft's task, the same in every exploration."""
    return f"{draft.shape}-{hashlib.sha256(draft.key.encode()).hexdigest()[:10]}"


def called_tools(task: Task) -> tuple[str, ...]:
    """Return the tools of a task's plan in order, repeated calls included."""
    return tuple(call.name for turn in task.demonstration for call in turn.calls)


def task_of(proven: Proven, split: str) -> Task:
    """Return the task with the wording of its split."""
    draft = proven.draft
    return Task(
        id=task_id(draft),
        prompt=(Message("user", question_for(draft, split)),),
        servers=draft.servers,
        truth=truth_of(proven),
        difficulty=draft.difficulty,
        family=draft.shape,
        split=split,
        demonstration=proven.played.demonstration,
    )
