"""A step's batch: drawn by the curriculum, in draw order, refilled, and never collected too far ahead."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.rollout.stage import call, leasing, notebook, script, scripted, small_chat, task
from turnwise.config import Recipe
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector, Progress
from turnwise.rollout.episode import EpisodeLimits, player
from turnwise.run.batches import Batches
from turnwise.tasks.curriculum import CurriculumState, Schedule, draw
from turnwise.types import Difficulty, Reward, Sampling, Task, Trajectory

CHAT = small_chat()


class ByMember:
    """Pays the members of the named tasks unlike each other, and all others alike."""

    def __init__(self, teaching: set[str]) -> None:
        self._teaching = teaching

    async def score(self, trajectory: Trajectory) -> Reward:
        member = int(trajectory.episode_id.rpartition("/")[2].partition(".")[0])
        total = float(member % 2) if trajectory.task.id in self._teaching else 1.0
        return Reward(total, {"outcome": total})


def recipe(**run: Any) -> Recipe:
    rollout = {key: run.pop(key) for key in ("dynamic_sampling", "max_draws") if key in run}
    return Recipe.model_validate({"run": run, "rollout": {"group_size": 2, **rollout}})


@asynccontextmanager
async def batches(
    tasks: Sequence[Task], settings: Recipe, steps: range, rewarder: Any, log: list[str]
) -> AsyncIterator[Batches]:
    async with nothing_leaks(), Pool(notebook()) as pool:
        await pool.connect()
        engine = scripted(CHAT, pool, tasks, lambda one: script(CHAT, [call("write", text=one.id)], "done"))
        playing = player(engine, CHAT, EpisodeLimits(), Sampling())

        def new_collector(step: int) -> Collector:
            log.append(f"begin {step}")
            return Collector(playing, leasing(pool), rewarder, CollectionPlan(group_size=2, seed=step))

        @asynccontextmanager
        async def shown(progress: Progress) -> AsyncIterator[None]:
            yield
            log.append(f"shown {progress.num_groups}")

        yield Batches(
            tasks,
            settings,
            new_collector,
            steps=steps,
            shown=shown,
            on_group=lambda step, group: log.append(f"group {step}"),
        )


async def test_every_task_comes_once_before_any_comes_again_and_a_resumed_draw_goes_on() -> None:
    tasks = [task(str(number)) for number in range(6)]

    async def run(steps: range, state: CurriculumState) -> tuple[list[list[str]], list[CurriculumState]]:
        drawn, states = [], []
        async with batches(tasks, recipe(tasks_per_step=2), steps, Rewards(), []) as source:
            async with source.collecting(state):
                for step in steps:
                    batch = await source.take(step)
                    drawn.append([group.task.id for group in batch.played])
                    states.append(batch.curriculum)
                    source.learned_from(step)
        return drawn, states

    settings_draws, states = await run(range(3), CurriculumState(seed=5))
    # all succeed, so every group is flat and refilled up to twice the number: four tasks a step
    assert [len(drawn) for drawn in settings_draws] == [4, 4, 4]
    assert len(set(settings_draws[0])) == 4, "none twice within a step"
    again, _ = await run(range(1, 3), states[0])
    assert again == settings_draws[1:]


async def test_groups_that_teach_nothing_are_played_but_not_learned_from() -> None:
    tasks = [task(str(number)) for number in range(8)]
    teaching = {"0", "2", "4", "6"}

    settings = recipe(tasks_per_step=3, max_draws=2.0)
    async with batches(tasks, settings, range(1), ByMember(teaching), []) as source:
        async with source.collecting(CurriculumState()):
            batch = await source.take(0)
    assert {group.task.id for group in batch.groups} <= teaching
    assert len(batch.groups) == 3 or len(batch.played) == 6
    assert len(batch.played) > 3, "this seed draws a flat one among the first three"
    learned = [group.task.id for group in batch.groups]
    assert learned == [group.task.id for group in batch.played if group.task.id in teaching], "draw order"


async def test_without_dynamic_sampling_flat_groups_are_learned_from_too() -> None:
    tasks = [task(str(number)) for number in range(4)]

    settings = recipe(tasks_per_step=3, dynamic_sampling=False)
    async with batches(tasks, settings, range(1), Rewards(), []) as source:
        async with source.collecting(CurriculumState()):
            batch = await source.take(0)
    assert len(batch.groups) == len(batch.played) == 3


@pytest.mark.parametrize(("mode", "staleness"), [("sync", 1), ("async", 1), ("async", 2)])
async def test_no_step_begins_before_staleness_allows(mode: str, staleness: int) -> None:
    tasks = [task(str(number)) for number in range(4)]
    log: list[str] = []
    steps = range(2, 7)

    settings = recipe(tasks_per_step=2, mode=mode, max_staleness=staleness, dynamic_sampling=False)
    async with batches(tasks, settings, steps, Rewards(), log) as source:
        async with source.collecting(CurriculumState()):
            for step in steps:
                await source.take(step)
                await asyncio.sleep(0.3)  # time for anything that may begin to do so
                log.append(f"learned {step}")
                source.learned_from(step)
    num_ahead = staleness if mode == "async" else 0
    for step in steps:
        begun = log.index(f"begin {step}")
        learned_before = [int(line.split()[1]) for line in log[:begun] if line.startswith("learned")]
        # when step s begins, step s - 1 - num_ahead has been learned from: its tokens are no older than that
        assert step - 1 - num_ahead in learned_before or step - 1 - num_ahead < steps.start
        # and it does begin early: not all steps before it have been learned from
        if num_ahead and step > steps.start:
            assert step - 1 not in learned_before
    assert sum(line.startswith("begin") for line in log) == len(steps), "none past the last step"


async def test_the_curriculum_sees_each_batch_before_the_next_is_drawn() -> None:
    tasks = [task(f"e{n}", difficulty=Difficulty.EASY) for n in range(4)]
    tasks += [task(f"m{n}", difficulty=Difficulty.MEDIUM) for n in range(4)]
    settings = Recipe.model_validate(
        {
            "run": {"tasks_per_step": 4, "mode": "async"},
            "rollout": {"group_size": 2, "dynamic_sampling": False},
            "curriculum": {"kind": "success"},
        }
    )

    async def run() -> list[set[str]]:
        levels = []
        async with batches(tasks, settings, range(2), Rewards(), []) as source:
            async with source.collecting(CurriculumState()):
                for step in range(2):
                    batch = await source.take(step)
                    levels.append({group.task.id[0] for group in batch.played})
                    source.learned_from(step)
        return levels

    first, second = await run()
    assert first == {"e"}
    assert "m" in second, "eight successes at easy, a step's episodes, promote"


def test_too_few_tasks_are_named() -> None:
    with pytest.raises(ValueError, match=r"tasks\.train has 1 tasks, run\.tasks_per_step is 16"):
        Batches(
            [task()],
            Recipe(),
            lambda step: pytest.fail("nothing is collected"),
            steps=range(1),
            shown=lambda progress: nullcontext(),
            on_group=lambda step, group: None,
        )


async def test_a_collection_that_fails_says_so_at_its_step() -> None:
    class Unreachable:
        async def score(self, trajectory: Trajectory) -> Reward:
            raise ValueError("the user's reward is wrong")

    tasks = [task(str(number)) for number in range(4)]

    async def run() -> None:
        async with batches(tasks, recipe(tasks_per_step=2), range(2), Unreachable(), []) as source:
            async with source.collecting(CurriculumState()):
                await source.take(0)

    with pytest.raises((ValueError, CollectionFailed), match="the user's reward is wrong"):
        await run()


@pytest.mark.parametrize("num_tasks", [8, 7], ids=["enough tasks", "too few"])
async def test_asynchronous_batches_are_collected_side_by_side_with_tasks_of_their_own(
    num_tasks: int,
) -> None:
    tasks = [task(str(number)) for number in range(num_tasks)]
    settings = recipe(tasks_per_step=2, max_draws=2.0, mode="async")

    class Held(Rewards):
        """What the first batch begins with is not scored before something else is."""

        def __init__(self) -> None:
            super().__init__()
            self.first: set[str] = set()
            self.is_other_scored = asyncio.Event()
            self.is_held_in_vain = False

        async def score(self, trajectory: Trajectory) -> Reward:
            if trajectory.task.id in self.first:
                try:
                    await asyncio.wait_for(self.is_other_scored.wait(), 3)
                except TimeoutError:
                    self.is_held_in_vain = True
            else:
                self.is_other_scored.set()
            return await super().score(trajectory)

    rewarder = Held()
    async with (
        batches(tasks, settings, range(3), rewarder, []) as source,
        source.collecting(CurriculumState()),
    ):
        first, _ = draw(tasks, Schedule(), CurriculumState(), step=0, count=2)
        rewarder.first = {group.id for group in first}
        played = []
        for step in range(3):
            batch = await source.take(step)
            played.append({group.task.id for group in batch.played})
            assert len(played[-1]) == 4, "all are flat, and refilled to twice the number"
            source.learned_from(step)
        assert rewarder.is_held_in_vain == (num_tasks < 8)
        if num_tasks == 8:
            assert not played[0] & played[1]
            assert not played[1] & played[2]


async def test_side_by_side_each_batch_begins_where_the_first_tasks_of_the_one_before_end() -> None:
    tasks = [task(str(number)) for number in range(12)]
    settings = recipe(tasks_per_step=3, max_draws=2.0, mode="async")

    async def run(steps: range, state: CurriculumState) -> tuple[list[list[str]], list[CurriculumState]]:
        drawn, states = [], []
        async with batches(tasks, settings, steps, Rewards(), []) as source, source.collecting(state):
            for step in steps:
                batch = await source.take(step)
                drawn.append([group.task.id for group in batch.played[:3]])
                states.append(batch.curriculum)
                source.learned_from(step)
        return drawn, states

    drawn, states = await run(range(3), CurriculumState(seed=5))
    assert [state.num_drawn for state in states] >= [3, 6, 9]
    again, _ = await run(range(1, 3), states[0])
    assert again[0] == drawn[1]


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_difficulty_with_few_tasks_is_played_as_far_as_it_goes(mode: str) -> None:
    """The curriculum draws easy ones alone, of which there are enough for a batch and not for its refills."""
    tasks = [task(f"e{n}", difficulty=Difficulty.EASY) for n in range(3)]
    tasks += [task(f"m{n}", difficulty=Difficulty.MEDIUM) for n in range(20)]
    settings = Recipe.model_validate(
        {
            "run": {"tasks_per_step": 2, "mode": mode},
            "rollout": {"group_size": 2, "max_draws": 2.0},
            "curriculum": {"kind": "schedule", "points": [[0, [1, 0, 0]]]},
        }
    )

    async def run(wanted: Recipe) -> set[str]:
        async with (
            batches(tasks, wanted, range(2), Rewards(), []) as source,
            source.collecting(CurriculumState()),
        ):
            return {group.task.id for group in (await source.take(0)).played}

    assert (await run(settings)) == {"e0", "e1", "e2"}
    more = settings.model_copy(update={"run": settings.run.model_copy(update={"tasks_per_step": 4})})
    with pytest.raises(ValueError, match=r"the curriculum at step 0 draws from 3 tasks, 4 are wanted"):
        await run(more)
