"""Reference plans score 1.0 end to end in every family and split; cheats do not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from tests import warm
from tests.models.chat.tokenizers import qwen3
from tests.rollout.stage import gathered, leasing
from turnwise.mcp.pool import Pool
from turnwise.models.chat import open_chat
from turnwise.rewards import Rewards
from turnwise.rewards.outcome import is_success
from turnwise.rollout.collector import CollectionPlan, Collector
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.setup.bench import scripted_engine
from turnwise.tasks.selection import SPLITS
from turnwise.types import DemoTurn, Group, Task
from turnwise.worlds.market.families import FAMILIES
from turnwise.worlds.market.families.making import make_tasks
from turnwise.worlds.market.world import open_world

CHAT = open_chat(qwen3())
LIMITS = EpisodeLimits(tokens_per_turn=2_000, tokens_per_episode=40_000)


async def played(pool: Pool, tasks: Sequence[Task]) -> list[Group]:
    playing = player(scripted_engine(CHAT, tasks, pool.tools), CHAT, LIMITS)
    collector = Collector(playing, leasing(pool), Rewards(), CollectionPlan(group_size=1))
    return await gathered(collector, tasks, len(tasks))


def with_answer(task: Task, text: str) -> Task:
    """The task with all correct calls and this answer as its plan."""
    return replace(task, demonstration=(*task.demonstration[:-1], DemoTurn(text)))


def guessed(task: Task) -> Task:
    """The correct answer without any call."""
    return replace(task, demonstration=(DemoTurn(task.demonstration[-1].text),))


def posted_twice(task: Task) -> Task | None:
    """The correct message posted twice."""
    posts = [turn for turn in task.demonstration if any("send_slack" in call.name for call in turn.calls)]
    if not posts:
        return None
    *before, last = task.demonstration
    return replace(task, demonstration=(*before, posts[0], last))


CHEATS: dict[str, Callable[[Task], Task | None]] = {
    "guess": guessed,
    "wrong answer": lambda task: with_answer(task, "I would rather not say: 0.123454321"),
    "only a pointer to the results": lambda task: with_answer(task, "See the result above."),
    "message posted twice": posted_twice,
}


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The tasks and the groups played on them, from one start of the servers."""

    tasks: tuple[Task, ...]
    groups: list[Group]
    cheated: dict[str, list[Group]]


@pytest.fixture(scope="module")
async def outcomes() -> Outcomes:
    # Results are long in a small vocabulary, so the limit is high.
    async with Pool(warm.built_in({}), max_result_tokens=8_000, count_tokens=CHAT.count_tokens) as pool:
        assert not await pool.connect()
        made = await make_tasks(open_world(0).market, pool.lease, dict.fromkeys(SPLITS, 1), earns=is_success)
        assert not made.rejected
        cheated = {}
        for name, cheat in CHEATS.items():
            tried = (cheat(task) for task in made.tasks if task.split == "test")
            cheated[name] = await played(pool, [task for task in tried if task is not None])
        return Outcomes(made.tasks, await played(pool, made.tasks), cheated)


@pytest.mark.parametrize("cheat", CHEATS)
async def test_cheats_are_not_rewarded_end_to_end(outcomes: Outcomes, cheat: str) -> None:
    groups = outcomes.cheated[cheat]
    assert groups
    assert [group.task.id for group in groups if group.rewards[0].total != 0.0] == []


async def test_every_reference_plan_scores_one_in_every_family_and_split(outcomes: Outcomes) -> None:
    made = {(task.family, task.split) for task in outcomes.tasks}
    assert made == {(family, split) for family in FAMILIES for split in SPLITS}
    assert len(outcomes.groups) == len(outcomes.tasks)
    assert [group.task.id for group in outcomes.groups if group.rewards[0].total != 1.0] == []
