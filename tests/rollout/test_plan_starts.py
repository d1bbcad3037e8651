"""Episodes inside the plan: real calls are made for the model, and only its own turns are trained."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.run.demonstrations.test_lessons import roomy, spoken_task, talking_task
from tests.setup.resolved import resolved
from tests.shown import shown_task, sound_setup
from turnwise.config import Recipe
from turnwise.rewards import reached_goal, succeeded
from turnwise.rollout.store import StoredEpisode, TrajectoryWriter, read_episodes
from turnwise.run.demonstrations.lessons import lesson_of
from turnwise.run.demonstrations.successes import successes_of
from turnwise.setup.bench import leased_tools, open_workbench
from turnwise.training.packing.samples import Sample, samples_of
from turnwise.types import Cause, DemoTurn, Group, Reward, Task, ToolCall, ToolResult, Trajectory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sound_setup(tmp_path)


async def started(recipe: Recipe, task: Task, num_given: int) -> tuple[Group, Sample]:
    """The group of a task whose episodes are given turns, and the whole demonstration as a lesson."""
    async with open_workbench(resolved(recipe, train=[task]).demonstrated(), [task]) as bench:
        tools = leased_tools(task, bench.pool.tools)
        lesson = lesson_of(task, tools, bench.chat, max_result_tokens=recipe.tools.max_result_tokens)
        collector = bench.collector(group_size=2, num_given=lambda task: num_given)
        async with collector.collecting([task], 1) as groups:
            [group] = [group async for group in groups]
            return group, lesson


def three_turns() -> Task:
    """Write, read, answer: each in a turn, and success needs that both were really called."""
    write, read = ToolCall("1", "write", {"text": "a"}), ToolCall("2", "read", {})
    wrote, saw = ToolResult("1", "written", Cause.OK, 0.0), ToolResult("2", '["a"]', Cause.OK, 0.0)
    shown = shown_task()
    turns = (DemoTurn("", (write,), (wrote,)), DemoTurn("", (read,), (saw,)), DemoTurn("done"))
    return replace(shown, demonstration=turns, truth=replace(shown.truth, required_tools=("write", "read")))


@pytest.mark.parametrize("make", [three_turns, talking_task, spoken_task])
@pytest.mark.parametrize("num_given", [0, 1, 2, 3, 4])
async def test_ids_are_those_of_the_whole_plan_and_the_mask_is_0_on_what_was_given(
    folder: Path, make: object, num_given: int
) -> None:
    task = make()  # type: ignore[operator]
    num_given = min(num_given, len(task.demonstration) - 1)
    group, lesson = await started(roomy(folder), task, num_given)
    for sample, trajectory in zip(samples_of([group]), group.trajectories, strict=True):
        assert reached_goal(trajectory, Reward(1.0, {})), "the calls were really made"
        assert trajectory.num_given == group.num_given == num_given
        assert sample.token_ids == lesson.token_ids
        kept = [int(turn >= num_given) for turn in lesson.turns]
        assert list(sample.loss_mask) == kept
        assert all(turn == -1 for turn, own in zip(sample.turns, kept, strict=True) if not own)
        assert sum(sample.loss_mask) < sum(lesson.loss_mask) or num_given == 0


async def test_an_episode_that_started_inside_the_plan_is_no_success_of_the_task(folder: Path) -> None:
    whole, _ = await started(roomy(folder), three_turns(), 0)
    inside, _ = await started(roomy(folder), three_turns(), 1)
    for group, is_success in ((whole, True), (inside, False)):
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
            assert reward.total == 1.0
            assert succeeded(trajectory, reward) is is_success


async def test_given_turns_are_stored_and_such_episodes_are_not_imitated(folder: Path) -> None:
    inside, _ = await started(roomy(folder), three_turns(), 2)
    run = folder / "a run"
    with TrajectoryWriter(run / "trajectories" / "step-000000.jsonl") as writer:
        writer.write(StoredEpisode(inside.trajectories[0], inside.rewards[0]))
    [stored] = read_episodes(run / "trajectories" / "step-000000.jsonl")
    assert [turn.is_given for turn in stored.trajectory.turns] == [True, True, False]
    (run / "tokenizer.json").write_bytes((folder / "model" / "tokenizer.json").read_bytes())
    with pytest.raises(ValueError, match="none of its episodes is a success to learn from"):
        successes_of(run, (folder / "model" / "tokenizer.json").read_text())


async def test_the_policy_version_of_a_sample_is_that_of_its_sampled_turns(folder: Path) -> None:
    group, _ = await started(roomy(folder), three_turns(), 2)
    trajectory: Trajectory = group.trajectories[0]
    *given, last = trajectory.turns
    sampled = replace(last, completion=replace(last.completion, policy_version=7))
    later = replace(
        group, trajectories=(replace(trajectory, turns=(*given, sampled)),), rewards=group.rewards[:1]
    )
    assert [sample.policy_version for sample in samples_of([later])] == [7]
