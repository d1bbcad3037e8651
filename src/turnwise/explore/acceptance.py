"""Verify drafts in rounds and keep those that are tasks, until there are enough or time is up."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from turnwise.explore.draft import Draft
from turnwise.explore.repetition import PlayedCall, played_calls
from turnwise.explore.splits import SHARES, EntitySplits, combination, question_for
from turnwise.explore.task_counts import TaskCounts
from turnwise.explore.verdicts import OUT_OF_TIME, Proven, Refusal, judge, prove, truth_of
from turnwise.mcp.pool import Pool
from turnwise.types import Message, Task

_PER_SESSION = 64
"""Plans that share two sessions. In the second their order is reversed, so none may need another."""
_FIRST_ROUND, _PER_ROUND = 16, 128
"""Plans verified in one round. The first rounds are small, so that the first tasks come early."""
_NUM_PARALLEL = 4

OTHER_SPLITS = "its entities belong to different splits"
HELD_OUT = "its combination of tools is held out for test tasks, its entities are not"


@dataclass(frozen=True, slots=True)
class Origin:
    """What an accepted task was made of: a later exploration keeps its split apart by this."""

    entities: tuple[str, ...]
    combination: str
    is_reworded: bool = False
    """Whether a language model worded its question."""


@dataclass(slots=True)
class Accepted:
    """The tasks so far, and why other drafts are none."""

    tasks: list[Task] = field(default_factory=list)
    origins: dict[str, Origin] = field(default_factory=dict)
    """By task id."""
    calls: dict[str, tuple[PlayedCall, ...]] = field(default_factory=dict)
    """By task id: the calls of the plan and of the probes after it."""
    rejected: dict[str, str] = field(default_factory=dict)
    """The reason by the id that the task would have had."""
    rejections: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    rejections_by_tool: dict[str, Counter[str]] = field(default_factory=dict)
    not_verified: Counter[str] = field(default_factory=Counter)
    """By tool: drafts that were not looked at."""
    num_not_verified: int = 0
    why_stopped: str = ""
    """Why drafts were not looked at."""
    counts: TaskCounts = field(default_factory=TaskCounts)

    def add(self, task: Task, origin: Origin, calls: tuple[PlayedCall, ...]) -> None:
        self.counts.add(task)
        self.calls[task.id] = calls
        self.tasks.append(task)
        self.origins[task.id] = origin

    def reject(self, draft: Draft, refusal: Refusal) -> None:
        self.rejections[refusal.reason] += 1
        self.rejected[task_id(draft)] = refusal.reason
        details = f" ({refusal.details})" if refusal.details else ""
        self.examples.setdefault(refusal.reason, f"{draft.questions[0]}{details}"[:400])
        for tool in dict.fromkeys(draft.tools):
            self.rejections_by_tool.setdefault(tool, Counter())[refusal.reason] += 1

    def leave(self, drafts: Iterable[Draft], why: str) -> None:
        """Count drafts that are not looked at."""
        for draft in drafts:
            self.num_not_verified += 1
            self.not_verified.update(dict.fromkeys(draft.tools, 1))
            self.why_stopped = why


@dataclass(frozen=True, slots=True)
class Target:
    """When to stop."""

    num_tasks: int
    deadline: float
    """A time of `time.monotonic()`."""
    per_kind: int
    """The most tasks of one shape with the same tools, unless there are no others."""


class Queue:
    """The drafts that are left, by split and in order; every round takes its share of every split."""

    def __init__(self, drafts: Iterable[tuple[Draft, str]], per_kind: int) -> None:
        self._waiting: dict[str, list[Draft]] = {split: [] for split in SHARES}
        for draft, split in drafts:
            self._waiting[split].append(draft)
        for waiting in self._waiting.values():
            waiting.reverse()  # taken from the end
        self._passed: dict[str, list[Draft]] = {split: [] for split in SHARES}
        self._kinds: Counter[tuple[str, ...]] = Counter()
        self._per_kind = per_kind

    def take(self, size: int) -> list[tuple[Draft, str]]:
        """Return the drafts of the next round; empty if none are left.

        Kinds with enough tasks are passed over, until only they are left: then they may have twice as many.
        """
        while True:
            chosen = [
                (draft, split)
                for split, share in SHARES.items()
                for draft in self._take(split, max(1, round(size * share)))
            ]
            for split in SHARES:  # a split with few drafts leaves its room to the others
                chosen.extend((draft, split) for draft in self._take(split, size - len(chosen)))
            if chosen or not any(self._passed.values()):
                return chosen
            self._per_kind *= 2
            self._waiting = {split: passed[::-1] for split, passed in self._passed.items()}
            self._passed = {split: [] for split in SHARES}

    def _take(self, split: str, num: int) -> Iterator[Draft]:
        waiting = self._waiting[split]
        while num > 0 and waiting:
            draft = waiting.pop()
            if self._kinds[kind_of(draft)] >= self._per_kind:
                self._passed[split].append(draft)
                continue
            self._kinds[kind_of(draft)] += 1
            num -= 1
            yield draft

    def give_back(self, draft: Draft) -> None:
        """Let a kind have one more: this draft is no task."""
        self._kinds[kind_of(draft)] -= 1

    def rest(self) -> list[Draft]:
        """Return the drafts that were not taken."""
        return [draft for lists in (self._waiting, self._passed) for left in lists.values() for draft in left]


def kind_of(draft: Draft) -> tuple[str, ...]:
    return (draft.shape, *draft.tools)


async def accept(
    drafts: Sequence[Draft],
    pool: Pool,
    splits: EntitySplits,
    held_out: Sequence[str],
    target: Target,
    accepted: Accepted,
    on_progress: Callable[[str], None],
) -> None:
    """Verify the drafts in order and add the tasks to `accepted`, which is whole whenever this is stopped."""
    queue = Queue(_placed(drafts, splits, held_out, accepted), target.per_kind)
    size, num_seen = _FIRST_ROUND, 0
    try:
        while len(accepted.tasks) < target.num_tasks and time.monotonic() <= target.deadline:
            num_missing = target.num_tasks - len(accepted.tasks)
            chosen = queue.take(min(size, max(_FIRST_ROUND, 2 * num_missing)))
            if not chosen:
                return
            size = min(_PER_ROUND, 2 * size)
            num_seen += len(chosen)
            verdicts = await _verify([draft for draft, _ in chosen], pool, target.deadline)
            for draft, split in chosen:
                if not _settle(draft, split, verdicts[draft.key], target.num_tasks, accepted):
                    queue.give_back(draft)
            on_progress(f"verified: {len(accepted.tasks)} tasks of {num_seen} programs")
    finally:
        is_enough = len(accepted.tasks) >= target.num_tasks
        accepted.leave(queue.rest(), "there were enough tasks" if is_enough else OUT_OF_TIME.reason)


def _placed(
    drafts: Sequence[Draft], splits: EntitySplits, held_out: Sequence[str], accepted: Accepted
) -> Iterator[tuple[Draft, str]]:
    """Yield the drafts with their splits; those that fit into none are rejected before anything is called."""
    for draft in drafts:
        split = splits.split_of(draft.entities)
        if not split:
            accepted.reject(draft, Refusal(OTHER_SPLITS, ", ".join(draft.entities)))
        elif split != "test" and combination(draft) in held_out:
            accepted.reject(draft, Refusal(HELD_OUT))
        else:
            yield draft, split


async def _verify(drafts: Sequence[Draft], pool: Pool, deadline: float) -> dict[str, Proven | Refusal]:
    """Play the plans, several batches at a time; return the outcomes by the drafts' keys."""
    slots = asyncio.Semaphore(_NUM_PARALLEL)
    batches = _batches(drafts)

    async def verified(batch: list[Draft]) -> list[Proven | Refusal]:
        async with slots:
            return await prove(batch, pool, f"verify/{batch[0].key}", deadline)

    outcomes = await asyncio.gather(*(verified(batch) for batch in batches))
    return {
        draft.key: outcome
        for batch, found in zip(batches, outcomes, strict=True)
        for draft, outcome in zip(batch, found, strict=True)
    }


def _batches(drafts: Sequence[Draft]) -> list[list[Draft]]:
    """Group plans that share sessions: all that only read; one that changes something is alone.

    Plans that read need not use the same servers: starting servers is what costs.
    """
    groups: dict[str, list[Draft]] = {}
    for draft in sorted(drafts, key=lambda draft: draft.servers):
        groups.setdefault(draft.key if draft.changes_state else "", []).append(draft)
    return [
        group[start : start + _PER_SESSION]
        for group in groups.values()
        for start in range(0, len(group), _PER_SESSION)
    ]


def _settle(draft: Draft, split: str, outcome: Proven | Refusal, num_tasks: int, accepted: Accepted) -> bool:
    """Add the task, or count why the draft is none."""
    if outcome is OUT_OF_TIME:
        accepted.leave([draft], OUT_OF_TIME.reason)
        return False
    if isinstance(outcome, Refusal):
        accepted.reject(draft, outcome)
        return False
    if len(accepted.tasks) >= num_tasks:
        accepted.leave([draft], "there were enough tasks")
        return False
    task = task_of(outcome, split)
    refusal = judge(outcome, task, accepted.counts.common(draft.shape)) or accepted.counts.refuse(task)
    if refusal is not None:
        accepted.reject(draft, refusal)
        return False
    accepted.add(task, Origin(draft.entities, combination(draft)), played_calls(task, outcome.played))
    return True


def task_id(draft: Draft) -> str:
    """Return the id of the draft's task, the same in every exploration."""
    return f"{draft.shape}-{hashlib.sha256(draft.key.encode()).hexdigest()[:10]}"


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
