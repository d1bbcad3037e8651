"""A step's batch: drawn by the curriculum, in draw order, refilled, and never collected too far ahead."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from tests.mcp.leaks import nothing_leaks
from tests.rollout.stage import call, leasing, notebook, script, scripted, small_chat, task
from turnwise.config import Recipe
from turnwise.mcp.pool import Pool
from turnwise.rewards import Rewards
from turnwise.rollout.collector import CollectionFailed, CollectionPlan, Collector
from turnwise.rollout.players.policy import EpisodeLimits, player
from turnwise.run.batches import Batches, CollectedBatch, num_replaced
from turnwise.tasks.curriculum import CurriculumState, Schedule, draw, state_of
from turnwise.tasks.plan_starts import PlanStarts
from turnwise.tasks.temperatures import FamilyTemperatures
from turnwise.types import Difficulty, Reward, Task, Trajectory, Truth

CHAT = small_chat()
LEVELS = (Difficulty.EASY, Difficulty.MEDIUM)


class ByMember:
    """Rewards the members of the given tasks differently, and the members of all others equally."""

    def __init__(self, teaching: set[str]) -> None:
        self._teaching = teaching

    async def score(self, trajectory: Trajectory) -> Reward:
        member = int(trajectory.episode_id.rpartition("/")[2].partition(".")[0])
        total = float(member % 2) if trajectory.task.id in self._teaching else 1.0
        return Reward(total, {"outcome": total})


def recipe(curriculum: dict[str, Any] | None = None, **run: Any) -> Recipe:
    rollout = {key: run.pop(key) for key in ("dynamic_sampling", "max_draws", "lockstep") if key in run}
    tools = {key: run.pop(key) for key in ("cassette",) if key in run}
    sections = {
        "run": run,
        "rollout": {"group_size": 2, **rollout},
        "tools": tools,
        "curriculum": curriculum or {"kind": "uniform"},
    }
    return Recipe.model_validate(sections)


def numbered(count: int) -> list[Task]:
    return [task(str(number)) for number in range(count)]


async def collect(
    tasks: Sequence[Task],
    settings: Recipe,
    steps: range = range(1),
    *,
    rewards: Any = None,
    state: CurriculumState | None = None,
    log: list[str] | None = None,
    update_seconds: float = 0.0,
) -> list[CollectedBatch]:
    """The batches of these steps; `log` gets a line when a step begins and when it is learned from."""
    log = [] if log is None else log
    async with nothing_leaks(), Pool(notebook()) as pool:
        await pool.connect()
        engine = scripted(CHAT, pool, tasks, lambda one: script(CHAT, [call("write", text=one.id)], "done"))
        playing = player(engine, CHAT, EpisodeLimits())

        def new_collector(step: int, starts: PlanStarts, _: FamilyTemperatures) -> Collector:
            log.append(f"begin {step}")
            plan = CollectionPlan(group_size=2, seed=step)
            return Collector(playing, leasing(pool), rewards or Rewards(), plan)

        source = Batches(
            tasks,
            settings,
            new_collector,
            steps=steps,
            shown=lambda progress: nullcontext(),
            on_group=lambda step, group: None,
        )
        batches = []
        async with source.collecting(state or CurriculumState()):
            for step in steps:
                batches.append(await source.take(step))
                await asyncio.sleep(update_seconds)
                log.append(f"learned {step}")
                source.learned_from(step)
        return batches


def played_ids(batches: Sequence[CollectedBatch]) -> list[list[str]]:
    return [[group.task.id for group in batch.played] for batch in batches]


async def test_every_task_is_drawn_once_before_any_is_drawn_again_and_a_resumed_draw_continues() -> None:
    tasks, settings = numbered(6), recipe(tasks_per_step=2)
    batches = await collect(tasks, settings, range(3), state=CurriculumState(seed=5))
    drawn = played_ids(batches)
    # all succeed, so every group is flat and refilled up to four times the number, as far as there are tasks
    assert [len(step) for step in drawn] == [6, 6, 6]
    assert len(set(drawn[0])) == 6, "none twice within a step"
    resumed = await collect(tasks, settings, range(1, 3), state=batches[0].curriculum)
    assert played_ids(resumed) == drawn[1:]


async def test_groups_that_teach_nothing_are_played_but_not_learned_from() -> None:
    teaching = {"0", "2", "4", "6"}
    settings = recipe(tasks_per_step=3, max_draws=2.0)
    [batch] = await collect(numbered(8), settings, rewards=ByMember(teaching))
    assert len(batch.groups) == 3 or len(batch.played) == 6
    assert len(batch.played) > 3, "this seed draws a flat one among the first three"
    learned = [group.task.id for group in batch.groups]
    assert learned == [group.task.id for group in batch.played if group.task.id in teaching], "draw order"


@pytest.mark.parametrize("lockstep", [False, True])
async def test_drawing_goes_on_until_a_quarter_of_the_groups_teaches(lockstep: bool) -> None:
    tasks = numbered(60)
    settings = recipe(tasks_per_step=8, max_draws=1.5, lockstep=lockstep)
    [flat] = await collect(tasks, settings, rewards=ByMember(set()))
    order = [group.task.id for group in flat.played]
    assert len(order) == 24, "twice 1.5 times 8, and no more"
    [batch] = await collect(tasks, settings, rewards=ByMember({order[3], order[17], order[19]}))
    assert [group.task.id for group in batch.groups] == [order[3], order[17]]
    assert [group.task.id for group in batch.played] == order[:18], "in draw order, and ends with the second"
    enough = await collect(tasks, settings, rewards=ByMember({order[0], order[1], order[17]}))
    assert [group.task.id for group in enough[0].played] == order[:12], "two teach: only refilled as usual"


async def test_replacements_start_ahead_and_the_batches_stay_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tasks = numbered(40)
    teaching = {one.id for one in tasks if int(one.id) % 2}
    settings = recipe(tasks_per_step=4, max_draws=3.0)
    ahead = await collect(tasks, settings, range(4), rewards=ByMember(teaching))
    assert sum(batch.progress.num_groups_unneeded for batch in ahead) > 0, "groups were started ahead"
    monkeypatch.setattr("turnwise.run.batches.num_replaced", lambda num_groups, flat_share, most: 0)
    one_by_one = await collect(tasks, settings, range(4), rewards=ByMember(teaching))
    assert sum(batch.progress.num_groups_unneeded for batch in one_by_one) == 0
    assert played_ids(ahead) == played_ids(one_by_one)
    assert [batch.curriculum for batch in ahead] == [batch.curriculum for batch in one_by_one]


@pytest.mark.parametrize("settled", [{"cassette": "calls.jsonl"}, {"lockstep": True}])
async def test_nothing_starts_ahead_where_timing_would_show(settled: dict[str, Any]) -> None:
    tasks = numbered(40)
    teaching = {one.id for one in tasks if int(one.id) % 2}
    settings = recipe(tasks_per_step=4, max_draws=3.0, **settled)
    batches = await collect(tasks, settings, range(3), rewards=ByMember(teaching))
    assert [batch.progress.num_groups_unneeded for batch in batches] == [0, 0, 0]


@pytest.mark.parametrize(("flat_share", "count"), [(0.0, 0), (0.25, 8), (0.5, 22), (1.0, 32)])
def test_as_many_groups_start_ahead_as_the_last_step_replaced_and_some(flat_share: float, count: int) -> None:
    assert num_replaced(16, flat_share, 32) == count


async def test_without_dynamic_sampling_flat_groups_are_learned_from_too() -> None:
    [batch] = await collect(numbered(4), recipe(tasks_per_step=3, dynamic_sampling=False))
    assert len(batch.groups) == len(batch.played) == 3


@pytest.mark.parametrize(("mode", "staleness"), [("sync", 1), ("async", 1), ("async", 2)])
async def test_no_step_begins_before_staleness_allows(mode: str, staleness: int) -> None:
    log: list[str] = []
    steps = range(2, 7)
    settings = recipe(tasks_per_step=2, mode=mode, max_staleness=staleness, dynamic_sampling=False)
    # during an update, any step that may begin has the time to begin
    await collect(numbered(4), settings, steps, log=log, update_seconds=0.1)
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
    tasks = [task(f"{level[0]}{n}", difficulty=level) for level in LEVELS for n in range(4)]
    settings = recipe({"kind": "success"}, tasks_per_step=4, mode="async", dynamic_sampling=False)
    drawn = played_ids(await collect(tasks, settings, range(2)))
    first, second = ({name[0] for name in step} for step in drawn)
    assert first == {"e"}
    assert "m" in second, "eight successes at easy, a step's episodes, promote"


LEARNABILITY = {"kind": "learnability"}


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_outcomes_of_all_batches_reach_the_record_and_later_draws_avoid_what_is_mastered(
    mode: str,
) -> None:
    tasks = [task(f"{family}{n}", family=family) for family in ("open", "mastered") for n in range(40)]

    class ByFamily:
        """Tasks of one family succeed in every other episode, those of the other always."""

        async def score(self, trajectory: Trajectory) -> Reward:
            member = int(trajectory.episode_id.rpartition("/")[2].partition(".")[0])
            total = 1.0 if trajectory.task.family == "mastered" else float(member % 2)
            return Reward(total, {"outcome": total})

    settings = recipe(LEARNABILITY, tasks_per_step=8, mode=mode, dynamic_sampling=False)
    batches = await collect(
        [replace(one, truth=Truth()) for one in tasks], settings, range(6), rewards=ByFamily()
    )
    record = batches[-1].curriculum.record
    assert set(record) == {name for step in played_ids(batches) for name in step}, "every played group"
    for name, outcomes in record.items():
        assert [outcome.num_successes for outcome in outcomes] == [1 if "open" in name else 2] * len(outcomes)
    late = [name for step in played_ids(batches)[3:] for name in step]
    assert sum("open" in name for name in late) / len(late) > 0.7
    assert any("mastered" in name for name in late), "some of the mastered family are checked"
    assert all(len(batch.predicted) == len(batch.played) for batch in batches)


async def test_a_resumed_draw_by_learnability_continues_exactly() -> None:
    tasks = numbered(30)
    teaching = {one.id for one in tasks if int(one.id) % 3 == 0}
    settings = recipe(LEARNABILITY, tasks_per_step=4, max_draws=3.0)
    batches = await collect(
        tasks, settings, range(4), rewards=ByMember(teaching), state=CurriculumState(seed=5)
    )
    restored = state_of(json.loads(json.dumps(batches[1].curriculum.as_json())))
    resumed = await collect(tasks, settings, range(2, 4), rewards=ByMember(teaching), state=restored)
    assert played_ids(resumed) == played_ids(batches)[2:]
    assert resumed[-1].curriculum == batches[-1].curriculum


async def test_concurrent_batches_by_learnability_share_no_task_and_learn_of_those_before() -> None:
    tasks, settings = numbered(24), recipe(LEARNABILITY, tasks_per_step=3, max_draws=2.0, mode="async")
    rewards = ByMember({one.id for one in tasks})
    one, two, three = await collect(tasks, settings, range(3), rewards=rewards)
    assert not {*played_ids([one])[0]} & {*played_ids([two])[0]}
    assert one.curriculum.record.keys() < two.curriculum.record.keys() < three.curriculum.record.keys()


async def test_a_collection_that_fails_raises_at_its_step() -> None:
    class Broken:
        async def score(self, trajectory: Trajectory) -> Reward:
            raise ValueError("the user's reward is wrong")

    with pytest.raises((ValueError, CollectionFailed), match="the user's reward is wrong"):
        await collect(numbered(4), recipe(tasks_per_step=2), range(2), rewards=Broken())


@pytest.mark.parametrize("num_tasks", [8, 7], ids=["enough tasks", "too few"])
async def test_asynchronous_batches_are_collected_concurrently_with_different_tasks(num_tasks: int) -> None:
    tasks = numbered(num_tasks)
    first, _ = draw(tasks, Schedule(), CurriculumState(), step=0, count=2)

    class Held(Rewards):
        """Scores the first tasks of the first batch only after a task of another batch was scored."""

        is_other_scored = asyncio.Event()
        is_held_in_vain = False

        async def score(self, trajectory: Trajectory) -> Reward:
            if trajectory.task.id not in {one.id for one in first}:
                self.is_other_scored.set()
            try:
                await asyncio.wait_for(self.is_other_scored.wait(), 10 if num_tasks == 8 else 0.5)
            except TimeoutError:
                self.is_held_in_vain = True
            return await ByMember({trajectory.task.id}).score(trajectory)

    rewards = Held()
    settings = recipe(tasks_per_step=2, max_draws=2.0, mode="async")
    one, two, three = map(set, played_ids(await collect(tasks, settings, range(3), rewards=rewards)))
    assert [len(step) for step in (one, two, three)] == [2, 2, 2]
    assert rewards.is_held_in_vain == (num_tasks < 8)
    if num_tasks == 8:
        assert not one & two
        assert not two & three


async def test_a_resumed_asynchronous_run_draws_the_batch_that_was_next() -> None:
    tasks, settings = numbered(12), recipe(tasks_per_step=3, max_draws=2.0, mode="async")
    batches = await collect(tasks, settings, range(3), state=CurriculumState(seed=5))
    assert [batch.curriculum.num_drawn for batch in batches] >= [3, 6, 9]
    resumed = await collect(tasks, settings, range(1, 2), state=batches[0].curriculum)
    assert played_ids(resumed)[0][:3] == played_ids(batches)[1][:3]


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_difficulty_with_few_tasks_is_played_as_far_as_it_goes(mode: str) -> None:
    """The curriculum draws only easy tasks: enough for a batch, too few for its refills."""
    tasks = [task(f"e{n}", difficulty=Difficulty.EASY) for n in range(3)]
    tasks += [task(f"m{n}", difficulty=Difficulty.MEDIUM) for n in range(20)]

    async def drawn(tasks_per_step: int) -> set[str]:
        schedule = {"kind": "schedule", "points": [[0, [1, 0, 0]]]}
        settings = recipe(schedule, tasks_per_step=tasks_per_step, mode=mode, max_draws=2.0)
        return set(played_ids(await collect(tasks, settings))[0])

    assert await drawn(2) == {"e0", "e1", "e2"}
    with pytest.raises(ValueError, match=r"the curriculum at step 0 draws from 3 tasks, 4 are wanted"):
        await drawn(4)
