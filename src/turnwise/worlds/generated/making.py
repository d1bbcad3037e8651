"""Make the tasks of a world: rehearsed, proven on the served world by `tasks/proof`, and audited."""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from turnwise.mcp.pool import Pool
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.verification import Rejected, TaskDraft, verified
from turnwise.tasks.rows import row_of, task_of
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


def make_all(seed: int, num: int, on_progress: Callable[[int], None] = lambda _: None) -> tuple[Task, ...]:
    """Return the tasks of worlds 0 to `num` - 1, made by as many processes as there are cores."""
    num_workers = min(os.cpu_count() or 1, num)
    if num <= _FEW_WORLDS or num_workers == 1:
        worlds = [_rows(seed, number, on_progress) for number in range(num)]
    else:
        worlds = _rows_of_workers(seed, num, num_workers, on_progress)
    return tuple(task_of(row) for rows in worlds for row in rows)


def _rows(seed: int, number: int, on_progress: Callable[[int], None]) -> list[dict[str, Any]]:
    rows = [row_of(made.task) for made in make_tasks(seed, number)]
    on_progress(number + 1)
    return rows


def _rows_of_workers(
    seed: int, num: int, num_workers: int, on_progress: Callable[[int], None]
) -> list[list[dict[str, Any]]]:
    """Return the rows of each world; the processes run this module, never the program that called."""
    by_number: dict[int, list[dict[str, Any]]] = {}

    def read(first: int) -> None:
        numbers = range(first, num, num_workers)
        command = [sys.executable, "-m", __name__, str(seed), *map(str, numbers)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for number, line in zip(numbers, worker.stdout, strict=False):
                by_number[number] = json.loads(line)
                on_progress(len(by_number))
        if worker.returncode:
            raise RuntimeError(f"a process that makes worlds ended with exit code {worker.returncode}")

    with ThreadPoolExecutor(num_workers) as threads:
        list(threads.map(read, range(num_workers)))
    return [by_number[number] for number in range(num)]


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


if __name__ == "__main__":
    for argument in sys.argv[2:]:
        made_rows = [row_of(made.task) for made in make_tasks(int(sys.argv[1]), int(argument))]
        print(json.dumps(made_rows), flush=True)
