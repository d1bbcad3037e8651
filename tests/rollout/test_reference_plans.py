"""Reference plans score 1.0 end to end in every family and split; cheats do not."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from tests import warm
from tests.chat.tokenizers import qwen3
from tests.rollout.stage import leasing
from turnwise.assembly.workbench import scripted_engine
from turnwise.chat import RenderedChat, open_chat
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.episode import EpisodeLimits, player
from turnwise.servers.embedded.world import open_world
from turnwise.tasks.families import FAMILIES
from turnwise.tasks.family import SPLITS
from turnwise.tasks.make import make_tasks
from turnwise.types import DemoTurn, Group, Sampling, Task

LIMITS = EpisodeLimits(tokens_per_turn=2_000, tokens_per_episode=40_000)


@asynccontextmanager
async def servers(chat: RenderedChat) -> AsyncIterator[Pool]:
    """The five built-in servers; results are long in a small vocabulary, so the limit is high."""
    async with Pool(warm.built_in({}), max_result_tokens=8_000, count_tokens=chat.count_tokens) as pool:
        assert not await pool.connect()
        yield pool


async def played(pool: Pool, chat: RenderedChat, tasks: Sequence[Task]) -> list[Group]:
    engine = scripted_engine(chat, tasks, pool.tools)
    playing = player(engine, chat, LIMITS, Sampling())
    collector = Collector(playing, leasing(pool), Rewards(), CollectionPlan(group_size=1))
    async with collector.collecting(tasks, len(tasks)) as groups:
        return [group async for group in groups]


async def made(pool: Pool) -> tuple[Task, ...]:
    result = await make_tasks(open_world(0).market, pool.lease, dict.fromkeys(SPLITS, 1))
    assert not result.rejected
    return result.tasks


def scripted_as(task: Task, *turns: DemoTurn) -> Task:
    return replace(task, demonstration=turns)


def guessed(task: Task) -> Task:
    """The correct answer without any call."""
    return scripted_as(task, DemoTurn(task.demonstration[-1].text))


def wrong(task: Task) -> Task:
    """All correct calls and a wrong answer."""
    return scripted_as(task, *task.demonstration[:-1], DemoTurn("I would rather not say: 0.123454321"))


def silent(task: Task) -> Task:
    """All correct calls, and an answer that only points to their results."""
    return scripted_as(task, *task.demonstration[:-1], DemoTurn("See the result above."))


def posted_twice(task: Task) -> Task | None:
    """The correct message posted twice."""
    posts = [turn for turn in task.demonstration if any("send_slack" in call.name for call in turn.calls)]
    if not posts:
        return None
    *before, last = task.demonstration
    return scripted_as(task, *before, posts[0], last)


CHEATS = (guessed, wrong, silent, posted_twice)


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The tasks and the groups played on them, from one start of the servers."""

    tasks: tuple[Task, ...]
    groups: list[Group]
    cheated: dict[str, list[Group]]


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    chat = open_chat(qwen3())

    async def main() -> Outcomes:
        async with servers(chat) as pool:
            tasks = await made(pool)
            cheated = {}
            for cheat in CHEATS:
                tried = (cheat(task) for task in tasks if task.split == "test")
                cheated[cheat.__name__] = await played(
                    pool, chat, [task for task in tried if task is not None]
                )
            return Outcomes(tasks, await played(pool, chat, tasks), cheated)

    return asyncio.run(main())


@pytest.mark.parametrize("cheat", [cheat.__name__ for cheat in CHEATS])
def test_cheats_are_not_rewarded_end_to_end(outcomes: Outcomes, cheat: str) -> None:
    groups = outcomes.cheated[cheat]
    assert groups
    assert [group.task.id for group in groups if group.rewards[0].total != 0.0] == []


def test_every_reference_plan_scores_one_in_every_family_and_split(outcomes: Outcomes) -> None:
    assert {(task.family, task.split) for task in outcomes.tasks} == {
        (family, split) for family in FAMILIES for split in SPLITS
    }
    assert len(outcomes.groups) == len(outcomes.tasks)
    assert [group.task.id for group in outcomes.groups if group.rewards[0].total != 1.0] == []
