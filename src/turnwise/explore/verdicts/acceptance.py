"""Verify drafts in rounds and keep those that are tasks, until there are enough or time is up."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnwise.explore.programs.draft import Draft
from turnwise.explore.splits import SHARES, EntitySplits, combination, question_for
from turnwise.explore.verdicts.change_cheats import cheats_of, earns
from turnwise.explore.verdicts.found_secrets import FoundSecrets
from turnwise.explore.verdicts.plan_session import PlanSession
from turnwise.explore.verdicts.proving import Proven, confirm, judge, prove, truth_of
from turnwise.explore.verdicts.refusal import OUT_OF_TIME, SERVER_FAILED, Refusal
from turnwise.explore.verdicts.repetition import PlayedCall, played_calls
from turnwise.explore.verdicts.task_counts import TaskCounts
from turnwise.explore.verdicts.witnesses import Witnesses
from turnwise.mcp.pool import Pool
from turnwise.mcp.session import ConnectFailed
from turnwise.tasks.proof.follow import ToolsDown
from turnwise.types import Message, Task
from turnwise.types.protocols import RewardDown

_PER_SESSION = 256
"""Plans that only read and share two sessions. In the second, the order of a round is reversed."""
_NUM_PARALLEL = 4
"""Plans that change something and are verified at the same time."""
_FIRST_ROUND, _PER_ROUND = 16, 128
"""Plans verified in one round. The first rounds are small, so that the first tasks come early."""
_PER_CHANGING = 6
"""Plans that only read for one that changes something: those take far longer."""

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
    secrets: FoundSecrets = field(default_factory=FoundSecrets)
    unconfirmed: dict[str, Proven] = field(default_factory=dict)
    """By task id: what has not been played once more at the end."""

    def add(self, task: Task, origin: Origin, calls: tuple[PlayedCall, ...]) -> Refusal | None:
        """Add the task; if it holds a secret that a tool has shown, return the refusal instead."""
        self.secrets.learn(call.content for call in calls)
        if refusal := self.secrets.refuse(task):
            return refusal
        self.counts.add(task)
        self.calls[task.id] = calls
        self.tasks.append(self.secrets.without_secrets(task))
        self.origins[task.id] = origin
        return None

    def withdraw(self, name: str, refusal: Refusal) -> None:
        """Remove a task again."""
        self.tasks = [task for task in self.tasks if task.id != name]
        del self.origins[name], self.calls[name]
        self.reject(self.unconfirmed[name].draft, refusal)

    def rewrite(self, tasks: Mapping[str, Task], dropped: Collection[str]) -> None:
        """Put other wordings in the places of tasks, by the ids that these have, and drop some."""
        kept = [task for task in self.tasks if task.id not in dropped]
        for task in kept:
            if task.id in tasks:
                new = tasks[task.id]
                self.origins[new.id] = replace(self.origins[task.id], is_reworded=True)
                self.calls[new.id] = self.calls[task.id]
        self.tasks = [tasks.get(task.id, task) for task in kept]

    def reject(self, draft: Draft, refusal: Refusal) -> None:
        self.rejections[refusal.reason] += 1
        self.rejected[draft.task_id] = refusal.reason
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
    pause_seconds: float
    """How long after the last verification all tasks are played once more, if there is time before `end`."""
    end: float


class Queue:
    """The drafts that are left, by split and in order; every round takes its share of every split."""

    def __init__(self, drafts: Iterable[tuple[Draft, str]], per_kind: int) -> None:
        self._waiting: dict[str, list[Draft]] = {split: [] for split in SHARES}
        for draft, split in drafts:
            self._waiting[split].append(draft)
        for split, drafts_of_split in self._waiting.items():
            self._waiting[split] = _mixed(drafts_of_split)[::-1]  # taken from the end
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
            if self._kinds[draft.kind] >= self._per_kind:
                self._passed[split].append(draft)
                continue
            self._kinds[draft.kind] += 1
            num -= 1
            yield draft

    def give_back(self, draft: Draft) -> None:
        """Let a kind have one more: this draft is no task."""
        self._kinds[draft.kind] -= 1

    def rest(self) -> list[Draft]:
        """Return the drafts that were not taken."""
        return [draft for lists in (self._waiting, self._passed) for left in lists.values() for draft in left]


def _mixed(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts with one that changes something before every few that read."""
    reading = [draft for draft in drafts if not draft.changes_state]
    changing = [draft for draft in drafts if draft.changes_state]
    mixed: list[Draft] = []
    for place in range(max(len(changing), -(-len(reading) // _PER_CHANGING))):
        mixed += changing[place : place + 1]
        mixed += reading[place * _PER_CHANGING : (place + 1) * _PER_CHANGING]
    return mixed


async def accept(
    drafts: Sequence[Draft],
    pool: Pool,
    later: Pool,
    witnesses: Witnesses,
    splits: EntitySplits,
    held_out: Sequence[str],
    target: Target,
    accepted: Accepted,
    on_progress: Callable[[str], None],
) -> None:
    """Verify the drafts in order and add the tasks to `accepted`, which is whole whenever this is stopped.

    `later` has the same servers with a clock that is hours away.
    """
    queue = Queue(_placed(drafts, splits, held_out, accepted), target.per_kind)
    verifier = Verifier(pool, later, witnesses, target.deadline)
    size, num_seen = _FIRST_ROUND, 0
    try:
        while True:
            num_missing = target.num_tasks - len(accepted.tasks)
            may_verify = num_missing > 0 and time.monotonic() <= target.deadline
            chosen = queue.take(min(size, max(_FIRST_ROUND, 2 * num_missing))) if may_verify else []
            if not chosen:
                if await _all_confirmed(verifier, accepted, target, on_progress):
                    return
                continue  # others may take the place of those that are gone
            size = min(_PER_ROUND, 2 * size)
            num_seen += len(chosen)
            verdicts = await verifier.verify([draft for draft, _ in chosen])
            for draft, split in chosen:
                if not _settle(draft, split, verdicts[draft.key], target.num_tasks, accepted):
                    queue.give_back(draft)
            on_progress(f"verified: {len(accepted.tasks)} tasks of {num_seen} programs")
    finally:
        await verifier.close()
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


class Verifier:
    """Plays plans in two sessions: those that only read share them, those that change something do not."""

    def __init__(self, pool: Pool, later: Pool, witnesses: Witnesses, deadline: float) -> None:
        self._pool = pool
        self._later = later
        self._witnesses = witnesses
        self._deadline = deadline
        self._num_pairs = 0
        self._changing = asyncio.Semaphore(_NUM_PARALLEL)
        self._reading = self._pair()
        self._num_read = 0
        self.verified_at = 0.0
        """When drafts were last verified, as a time of `time.monotonic()`."""

    async def verify(self, drafts: Sequence[Draft]) -> dict[str, Proven | Refusal]:
        """Return the outcomes by the drafts' keys."""
        readers = [draft for draft in drafts if not draft.changes_state]
        found = await self._read(readers) if readers else []
        outcomes = dict(zip((draft.key for draft in readers), found, strict=True))
        changers = [draft for draft in drafts if draft.changes_state]
        changed = await asyncio.gather(*(self._change(draft) for draft in changers))
        self.verified_at = time.monotonic()
        return outcomes | dict(zip((draft.key for draft in changers), changed, strict=True))

    async def _read(self, drafts: Sequence[Draft]) -> list[Proven | Refusal]:
        if self._num_read >= _PER_SESSION:
            await self.close()
            self._reading, self._num_read = self._pair(), 0
        self._num_read += len(drafts)
        return await prove(drafts, *self._reading, self._deadline, self._witnesses)

    async def _change(self, draft: Draft) -> Proven | Refusal:
        """Verify a plan that changes something, in sessions of its own."""
        async with self._changing:
            pair = self._pair()
            try:
                [outcome] = await prove([draft], *pair, self._deadline, self._witnesses)
            finally:
                for session in pair:
                    await session.close()
            return outcome if isinstance(outcome, Refusal) else await self._cheated(outcome)

    async def _cheated(self, proven: Proven) -> Proven | Refusal:
        """Refuse a draft whose reward an episode earns that changes something other than it asks for."""
        task = task_of(proven, "train")
        for number, cheat in enumerate(cheats_of(proven)):
            session = PlanSession(self._pool, f"verify/{task.id}/cheat/{number}")
            try:
                if await earns(cheat, task, await session.toolbox(task.servers)):
                    return Refusal(
                        "another change earns it", str([call.arguments for call in cheat.calls])[:300]
                    )
            except (ToolsDown, ConnectFailed, RewardDown) as error:
                return Refusal(SERVER_FAILED, str(error))
            finally:
                await session.close()
        return proven

    async def confirm(self, proven: Sequence[Proven]) -> list[Refusal | None]:
        """Play plans once more; return for each why it does not hold any more, None if it does."""
        readers = [one for one in proven if not one.draft.changes_state]
        batches = [readers[start : start + _PER_SESSION] for start in range(0, len(readers), _PER_SESSION)]
        batches += [[one] for one in proven if one.draft.changes_state]
        found: dict[str, Refusal | None] = {}
        for refusals in await asyncio.gather(*map(self._confirm, batches)):
            found |= refusals
        return [found[one.draft.key] for one in proven]

    async def _confirm(self, batch: Sequence[Proven]) -> dict[str, Refusal | None]:
        async with self._changing:
            self._num_pairs += 1
            session = PlanSession(self._pool, f"verify/{self._num_pairs}/confirm")
            try:
                refusals = await confirm(batch, session, self._witnesses)
            finally:
                await session.close()
        return {one.draft.key: refusal for one, refusal in zip(batch, refusals, strict=True)}

    def _pair(self) -> tuple[PlanSession, PlanSession]:
        self._num_pairs += 1
        return (
            PlanSession(self._pool, f"verify/{self._num_pairs}/first"),
            PlanSession(self._later, f"verify/{self._num_pairs}/second"),
        )

    async def close(self) -> None:
        """Close the sessions that reading plans share."""
        for session in self._reading:
            await session.close()


async def _all_confirmed(
    verifier: Verifier, accepted: Accepted, target: Target, on_progress: Callable[[str], None]
) -> bool:
    """Play the new tasks once more and withdraw those that do not hold; return whether all of them do."""
    names = list(accepted.unconfirmed)
    rest = min(verifier.verified_at + target.pause_seconds, target.end) - time.monotonic()
    if names and rest > 0:
        on_progress(f"in {rest:.0f} s, all tasks are played once more")
        await asyncio.sleep(rest)
    refusals = await verifier.confirm(list(accepted.unconfirmed.values()))
    for name, refusal in zip(names, refusals, strict=True):
        if refusal is not None:
            accepted.withdraw(name, refusal)
    accepted.unconfirmed.clear()
    num_kept = sum(refusal is None for refusal in refusals)
    if names:
        on_progress(f"played once more: {num_kept} of {len(names)} tasks are the same")
    return num_kept == len(names)


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
    if refusal is None:
        origin = Origin(draft.entities, combination(draft))
        refusal = accepted.add(task, origin, played_calls(task, outcome.played))
    if refusal is not None:
        accepted.reject(draft, refusal)
        return False
    accepted.unconfirmed[task.id] = outcome
    return True


def task_of(proven: Proven, split: str) -> Task:
    """Return the task with the wording of its split."""
    draft = proven.draft
    return Task(
        id=draft.task_id,
        prompt=(Message("user", question_for(draft, split)),),
        servers=draft.servers,
        truth=truth_of(proven),
        difficulty=draft.difficulty,
        family=draft.shape,
        split=split,
        demonstration=proven.played.demonstration,
    )
