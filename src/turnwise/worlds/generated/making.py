"""Make the tasks of a world: rehearsed, proven on the served world by `tasks/proof`, and audited."""

import asyncio
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from turnwise.mcp.pool import Pool
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.verification import Rejected, TaskDraft, verified
from turnwise.types import Task
from turnwise.worlds.generated.audit import violations
from turnwise.worlds.generated.plans.kinds import KINDS, TaskKind
from turnwise.worlds.generated.rehearsal import Derived, Rehearsal, Unfit
from turnwise.worlds.generated.vocabulary import themes
from turnwise.worlds.generated.world import World, named_world, server_of, world_name
from turnwise.worlds.stream import Stream

logger = logging.getLogger(__name__)

RESULT_TOKENS = 400
"""A plan whose results are longer is rejected: a recipe's `tools.max_result_tokens` could cut the fact."""
_MAX_DRAWS = 6
"""Draws of one kind in one world before it counts as unfit."""
TASKS_PER_WORLD = 10
_FEW_WORLDS = 4
"""Worlds that this process makes alone: a worker process takes seconds to start."""


@dataclass(frozen=True, slots=True)
class MadeTask:
    """A verified task, and what of it follows from values instead of being said or shown."""

    task: Task
    derived: tuple[Derived, ...]


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """A drawn task before its proof."""

    draft: TaskDraft
    derived: tuple[Derived, ...]


def split_of_world(number: int) -> str:
    """Return the split of a world: of seven domains one is for test, of eleven another for validation."""
    place = number % len(themes())
    return "test" if place % 7 == 3 else "validation" if place % 11 == 5 else "train"


def make_all(
    seed: int, num: int, on_progress: Callable[[int], None] = lambda _: None
) -> tuple[MadeTask, ...]:
    """Return the tasks of worlds 0 to `num` - 1, made by as many processes as there are cores."""
    numbers = [(seed, number) for number in range(num)]
    num_workers = min(os.cpu_count() or 1, num)
    if num <= _FEW_WORLDS or num_workers == 1:
        return tuple(_collected(map(_make_one, numbers), on_progress))
    # Not forked: the threads of this process, torch's for example, would be missing in the workers.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(num_workers, mp_context=context) as workers:
        return tuple(_collected(workers.map(_make_one, numbers, chunksize=4), on_progress))


def _collected(made: Iterable[list[MadeTask]], on_progress: Callable[[int], None]) -> Iterator[MadeTask]:
    for done, tasks in enumerate(made, 1):
        on_progress(done)
        yield from tasks


def _make_one(world: tuple[int, int]) -> list[MadeTask]:
    return make_tasks(*world)


def make_tasks(seed: int, number: int, count: int = TASKS_PER_WORLD) -> list[MadeTask]:
    """Return about `count` verified tasks of a world; a contrast pair is never split."""
    return asyncio.run(_make_tasks(seed, number, count))


async def _make_tasks(seed: int, number: int, count: int) -> list[MadeTask]:
    world = named_world(world_name(seed, number))
    made: list[MadeTask] = []
    async with Pool([server_of(world)], max_result_tokens=RESULT_TOKENS) as pool:
        for place in range(2 * len(KINDS)):
            if len(made) >= count:
                break
            # Each world begins where the one before ended, so that all kinds become equally many.
            kind = KINDS[(number * count + place) % len(KINDS)]
            made += await _of_kind(world, kind, number, pool, first_draw=place // len(KINDS) * _MAX_DRAWS)
    return made


async def _of_kind(world: World, kind: TaskKind, number: int, pool: Pool, first_draw: int) -> list[MadeTask]:
    """Return the task of this kind, both of a pair, or none if the world cannot have them."""
    for draw in range(first_draw, first_draw + _MAX_DRAWS):
        drafts = drafts_of(world, kind, split_of_world(number), draw)
        if not drafts:
            continue
        outcomes = [await verified(each.draft, pool.lease, None, None, is_success) for each in drafts]
        made = []
        for each, outcome in zip(drafts, outcomes, strict=True):
            if isinstance(outcome, Rejected):
                logger.debug("%s", outcome)
            elif wrong := violations(outcome, world, each.derived):
                logger.debug("%s: %s", outcome.id, wrong)
            else:
                made.append(MadeTask(outcome, each.derived))
        if len(made) == len(drafts):
            return made
    return []


def drafts_of(world: World, kind: TaskKind, split: str, draw: int) -> list[TaskPlan]:
    """Return a plan for each side of the kind, drawn alike; empty if one of them does not exist."""
    drafts = []
    for side in range(len(kind.sides)):
        rehearsal = Rehearsal(world, Stream(world.name, kind.name, draw), side)
        try:
            kind.rehearse(rehearsal)
        except Unfit:
            return []
        family = kind.family(side)
        draft = rehearsal.draft(f"{world.name}-{family}-{draw}", family, split)
        drafts.append(TaskPlan(draft, tuple(rehearsal.derived)))
    return drafts
