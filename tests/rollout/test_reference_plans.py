"""Reference plans played through the whole path score 1.0 in every family and split; cheats do not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.chat.tokenizers import qwen3
from tests.rollout.stage import leasing
from turnwise.chat import RenderedChat, open_chat
from turnwise.mcp.pool import Pool
from turnwise.mcp.spec import load
from turnwise.rewards import Rewards
from turnwise.rollout.collector import Collector, Plan
from turnwise.rollout.episode import Limits, player
from turnwise.servers.embedded.world import open_world
from turnwise.servers.services import DEFAULT_FILE
from turnwise.tasks.families import FAMILIES
from turnwise.tasks.family import SPLITS
from turnwise.tasks.make import make_tasks
from turnwise.types import DemoTurn, Group, Sampling, Task
from turnwise.workbench import scripted_engine

LIMITS = Limits(tokens_per_turn=2_000, tokens_per_episode=40_000)


@asynccontextmanager
async def servers(chat: RenderedChat) -> AsyncIterator[Pool]:
    """The five built-in ones. Results are long in this tokenizer's small vocabulary: the budget is wide."""
    async with Pool(load(DEFAULT_FILE, {}), max_result_tokens=8_000, count_tokens=chat.count_tokens) as pool:
        assert not await pool.connect()
        yield pool


async def played(pool: Pool, chat: RenderedChat, tasks: Sequence[Task]) -> list[Group]:
    engine = scripted_engine(chat, tasks, pool.tools)
    playing = player(engine, chat, LIMITS, Sampling())
    collector = Collector(playing, leasing(pool), Rewards(), Plan(group_size=1))
    async with collector.collecting(tasks, len(tasks)) as groups:
        return [group async for group in groups]


async def made(pool: Pool) -> tuple[Task, ...]:
    result = await make_tasks(open_world(0).market, pool.lease, dict.fromkeys(SPLITS, 1))
    assert not result.rejected
    return result.tasks


Cheat = Callable[[Task], Task | None]


def scripted_as(task: Task, *turns: DemoTurn) -> Task:
    return replace(task, demonstration=turns)


def guessed(task: Task) -> Task:
    """The right answer, without having asked anyone."""
    return scripted_as(task, DemoTurn(task.demonstration[-1].text))


def wrong(task: Task) -> Task:
    """All the right calls, and a wrong answer."""
    return scripted_as(task, *task.demonstration[:-1], DemoTurn("I would rather not say: 0.123454321"))


def silent(task: Task) -> Task:
    """All the right calls, and a tool's output where the answer should be found."""
    return scripted_as(task, *task.demonstration[:-1], DemoTurn("See the result above."))


def posted_twice(task: Task) -> Task | None:
    """The message, and then the same message again."""
    posts = [turn for turn in task.demonstration if any("send_slack" in call.name for call in turn.calls)]
    if not posts:
        return None
    *before, last = task.demonstration
    return scripted_as(task, *before, posts[0], last)


@pytest.mark.parametrize("cheat", [guessed, wrong, silent, posted_twice], ids=lambda cheat: cheat.__name__)
def test_cheats_played_through_the_whole_path_are_not_paid(cheat: Cheat) -> None:
    chat = open_chat(qwen3())

    async def main() -> None:
        async with servers(chat) as pool:
            tasks = [task for task in await made(pool) if task.split == "test"]
            cheating = [tried for task in tasks if (tried := cheat(task)) is not None]
            assert cheating
            for group in await played(pool, chat, cheating):
                assert group.rewards[0].total == 0.0, (cheat.__name__, group.task.id)

    asyncio.run(main())


def test_every_reference_plan_scores_one_in_every_family_and_split() -> None:
    chat = open_chat(qwen3())

    async def main() -> None:
        async with servers(chat) as pool:
            tasks = await made(pool)
            assert {(task.family, task.split) for task in tasks} == {
                (family, split) for family in FAMILIES for split in SPLITS
            }
            groups = await played(pool, chat, tasks)
            assert len(groups) == len(tasks)
            assert [group.task.id for group in groups if group.rewards[0].total != 1.0] == []

    asyncio.run(main())
