"""Each kind of task: proven on the served world, every value from somewhere, both sides of a pair or none."""

from collections import Counter
from dataclasses import replace

import pytest

from turnwise.mcp.pool import Pool
from turnwise.rewards.outcome import is_success
from turnwise.tasks.proof.verdict import episode_of
from turnwise.tasks.proof.verification import verified
from turnwise.types import DemoTurn, Task
from turnwise.worlds.generated.audit import violations
from turnwise.worlds.generated.coverage import coverage
from turnwise.worlds.generated.making import RESULT_TOKENS, drafts_of, make_all, make_tasks
from turnwise.worlds.generated.plans.kinds import KINDS, TaskKind
from turnwise.worlds.generated.rehearsal import Derived
from turnwise.worlds.generated.world import World, named_world, server_of, world_name

NUM_WORLDS = 16


async def made_of(kind: TaskKind) -> tuple[World, list[Task]]:
    """Return the first world that can have this kind, and its task or both tasks of the pair."""
    for number in range(NUM_WORLDS):
        world = named_world(world_name(1, number))
        async with Pool([server_of(world)], max_result_tokens=RESULT_TOKENS) as pool:
            for draw in range(3):
                drafts = drafts_of(world, kind, "train", draw)
                outcomes = [await verified(each.draft, pool.lease, None, None, is_success) for each in drafts]
                tasks = [outcome for outcome in outcomes if isinstance(outcome, Task)]
                if drafts and len(tasks) == len(drafts):
                    for task, each in zip(tasks, drafts, strict=True):
                        assert not violations(task, world, each.derived)
                    return world, tasks
    raise AssertionError(f"none of {NUM_WORLDS} worlds has {kind.name}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_kind_has_proven_tasks(kind: TaskKind) -> None:
    _, tasks = await made_of(kind)
    assert len(tasks) == len(kind.sides)


async def test_refusing_where_the_tool_is_there_earns_nothing() -> None:
    kind = next(kind for kind in KINDS if kind.name == "missing_tool")
    world, (absent, present) = await made_of(kind)
    async with Pool([server_of(world)]) as pool, pool.lease([world.name], "episode") as toolbox:
        tools = tuple(toolbox.tools)
    refusal = (DemoTurn("impossible"),)
    assert is_success(episode_of(replace(absent, conversation=()), refusal, tools, is_done=True))
    assert not is_success(episode_of(present, refusal, tools, is_done=True))


async def test_a_value_from_nowhere_is_found() -> None:
    world, (task,) = await made_of(next(kind for kind in KINDS if kind.name == "look_up"))
    assert not violations(task, world)
    *calls, _ = task.demonstration
    assert violations(replace(task, demonstration=(*calls, DemoTurn("ZZ-99173"))), world)
    with_number = replace(task, demonstration=(*calls, DemoTurn("9917399")))
    assert violations(with_number, world)
    assert violations(with_number, world, [Derived(9917399, "sum", (9917000, 399))])


def test_processes_make_the_same_tasks_as_this_one() -> None:
    alone = [made.task for number in range(5) for made in make_tasks(4, number)]
    assert list(make_all(4, 5)) == alone


def test_pairs_have_as_many_of_each_side() -> None:
    families = Counter(made.task.family for number in range(6) for made in make_tasks(2, number))
    for kind in KINDS:
        sides = {families[kind.family(side)] for side in range(len(kind.sides))}
        assert len(sides) == 1, kind.name


@pytest.mark.slow
def test_kinds_features_and_events_are_common_enough() -> None:
    table = coverage(make_all(0, 250))
    by_kind = {
        kind.name: sum(table["families"][kind.family(s)] for s in range(len(kind.sides))) for kind in KINDS
    }
    assert not {name: share for name, share in by_kind.items() if share < 0.02}
    assert not {name: share for name, share in table["tasks"].items() if share < 0.02}
