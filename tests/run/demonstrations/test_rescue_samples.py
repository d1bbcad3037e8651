"""A rescue has the model's own ids as context, the plan's turns as its lesson, and earned its outcome."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests import warm
from tests.rollout.stage import call, script
from tests.rollout.test_plan_starts import three_turns
from tests.run.demonstrations.test_lessons import roomy, talking_task
from tests.setup.resolved import resolved
from tests.shown import sound_setup
from turnwise.config import parse_settings, read_recipe
from turnwise.engines.scripted import ScriptedEngine
from turnwise.rollout.takeover import Trouble
from turnwise.run.demonstrations.lessons import lessons_of
from turnwise.run.demonstrations.rescue_samples import Rescues, can_rescue, play_all, rescued, whole_plans
from turnwise.setup.bench import Workbench, open_workbench
from turnwise.tasks.load import load
from turnwise.tasks.selection import across_families
from turnwise.types import ExpectedWrite, ModelUser, Reward, Task, ToolCall, Trajectory

WRITE, READ = call("write", text="a"), call("read")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sound_setup(tmp_path)


def once() -> Task:
    """Write `a` exactly once, read, answer."""
    shown = three_turns()
    return replace(shown, truth=replace(shown.truth, writes=(ExpectedWrite("write", {"text": "a"}),)))


async def played_by(
    bench: Workbench, wanted: Task, turns: Sequence[str | Sequence[ToolCall]]
) -> tuple[Trajectory, Reward]:
    """The episode in which the model says this."""
    chat = bench.chat
    model = ScriptedEngine(
        lambda text: chat.say(text)[:-1], min(chat.stop_ids), sequence=script(chat, *turns), version=3
    )
    [episode] = await play_all(replace(bench, engine=model).collector(group_size=1), [wanted])
    return episode


async def rescue(
    folder: Path, wanted: Task, *turns: str | Sequence[ToolCall]
) -> tuple[Workbench, Trajectory, Rescues]:
    async with open_workbench(resolved(roomy(folder)).demonstrated(), [wanted]) as bench:
        episode = await played_by(bench, wanted, turns)
        return bench, episode[0], await rescued(bench, [episode])


async def test_the_mask_is_on_the_plans_turns_and_the_context_is_what_was_sampled(folder: Path) -> None:
    wanted = replace(once(), max_turns=3)
    bench, played, found = await rescue(folder, wanted, [WRITE], "", [WRITE])
    assert found.num_played == 1
    assert dict(found.troubles) == {Trouble.MALFORMED: 1}
    [lesson] = found.lessons
    write, malformed, _ = played.turns
    plan = [bench.chat.say(turn.text, turn.calls) for turn in wanted.demonstration[1:]]
    # context: the prompt, both turns of the model and what was answered to them
    context = (
        *write.new_ids,
        *write.completion.token_ids,
        *malformed.new_ids,
        *malformed.completion.token_ids,
        *played.turns[2].new_ids,
    )
    assert lesson.token_ids[: len(context)] == context
    assert lesson.loss_mask[: len(context)] == (0,) * len(context)
    assert lesson.turns[: len(context)] == (-1,) * len(context)
    rest = lesson.token_ids[len(context) :]
    assert rest[: len(plan[0])] == plan[0]
    assert rest[-len(plan[1]) :] == plan[1]
    between = len(rest) - len(plan[0]) - len(plan[1])
    assert lesson.loss_mask[len(context) :] == (
        *(1,) * len(plan[0]),
        *(0,) * between,
        *(1,) * len(plan[1]),
    )
    assert lesson.num_own_tokens == len(plan[0]) + len(plan[1])
    assert set(lesson.turns) == {-1, 2, 3}
    assert (lesson.reward, lesson.temperature, lesson.policy_version) == (1.0, 1.0, 0)


async def test_a_spoiled_state_is_no_context_the_plan_takes_over_before_the_wrong_change(
    folder: Path,
) -> None:
    wrong = call("write", text="b")
    bench, played, found = await rescue(folder, once(), [READ], [wrong], [READ], [READ], "done")
    assert dict(found.troubles) == {Trouble.WRONG_CHANGE: 1}
    assert dict(found.discarded) == {}
    [lesson] = found.lessons
    reading, *_ = played.turns
    context = (*reading.new_ids, *reading.completion.token_ids, *played.turns[1].new_ids)
    assert lesson.token_ids[: len(context)] == context
    own = [token for token, flag in zip(lesson.token_ids, lesson.loss_mask, strict=True) if flag]
    said = [bench.chat.say(turn.text, turn.calls) for turn in once().demonstration]
    assert own == [token for turn in said for token in turn]


async def test_a_rescue_in_a_state_that_the_plan_cannot_mend_is_discarded(folder: Path) -> None:
    # By its truth nothing may be written, so the plan, which writes, fails from wherever it begins.
    wanted = replace(once(), truth=replace(once().truth, writes=()))
    _, _, found = await rescue(folder, wanted, [READ], [READ], "done")
    assert dict(found.discarded) == {"answered, without success": 1}
    assert found.lessons == ()


async def test_a_success_is_not_rescued(folder: Path) -> None:
    _, _, found = await rescue(folder, once(), [WRITE], [READ], "done")
    assert (found.num_played, found.num_succeeded, found.lessons) == (1, 1, ())


async def test_a_plan_whose_call_is_refused_now_is_discarded(folder: Path) -> None:
    write, fail, answer = once().demonstration
    broken = replace(fail, calls=(ToolCall("2", "fail", {"how": "model"}),))
    wanted = replace(
        once(), truth=replace(once().truth, required_tools=()), demonstration=(write, broken, answer)
    )
    _, _, found = await rescue(folder, wanted, "done")
    assert dict(found.discarded) == {"a call of the plan is refused": 1}


async def test_results_that_differ_when_played_again_are_no_context(folder: Path) -> None:
    async with open_workbench(resolved(roomy(folder)).demonstrated(), [once()]) as bench:
        trajectory, reward = await played_by(bench, once(), [[WRITE], [READ], [READ], "no"])
        first, *rest = trajectory.turns
        changed = replace(first, results=(replace(first.results[0], content="written at 12:00"),))
        found = await rescued(bench, [(replace(trajectory, turns=(changed, *rest)), reward)])
    assert dict(found.discarded) == {"results differ when played again": 1}


async def test_a_conversation_is_rescued_from_its_second_message_on(folder: Path) -> None:
    wanted = talking_task()
    bench, played, found = await rescue(folder, wanted, "Which one?", "done", "I have written it.", "done")
    assert dict(found.troubles) == {Trouble.EARLY_TEXT: 1}
    assert dict(found.discarded) == {}
    [lesson] = found.lessons
    kept = [turn for turn in played.turns if turn.message == 0]
    context = [token for turn in kept for token in (*turn.new_ids, *turn.completion.token_ids)]
    assert lesson.token_ids[: len(context)] == tuple(context)
    assert sum(lesson.loss_mask[: len(context)]) == 0
    plan = [bench.chat.say(turn.text, turn.calls) for turn in wanted.demonstration[2:]]
    own = [token for token, flag in zip(lesson.token_ids, lesson.loss_mask, strict=True) if flag]
    assert own == [token for said in plan for token in said]


async def test_the_whole_plan_of_a_task_is_its_demonstration_token_for_token(folder: Path) -> None:
    failing = replace(once(), id="failing", truth=replace(once().truth, writes=()))
    async with open_workbench(resolved(roomy(folder)).demonstrated(), [once()]) as bench:
        [lesson] = await whole_plans(bench, [once(), failing])
        [recorded] = lessons_of(bench, [once()])
    assert lesson == recorded


def test_only_whole_plans_without_a_played_user_rescue() -> None:
    assert can_rescue(once())
    assert not can_rescue(replace(once(), demonstration=()))
    assert not can_rescue(replace(once(), demonstration=once().demonstration[:1]))
    assert not can_rescue(replace(once(), user=ModelUser("Ann", "Say which.")))


@pytest.mark.skipif(sys.platform != "linux", reason="the Python server's sandbox needs Linux")
async def test_the_embedded_model_is_rescued_in_the_embedded_world() -> None:
    file = Path(__file__).parents[3] / "recipes" / "cpu" / "train.jsonl"
    servers = Path(warm.light()).with_name("mcp.json")
    # hot enough to go wrong in most episodes
    recipe = read_recipe(
        Path("cpu"),
        parse_settings([f"tools.mcp={servers}", "rollout.temperature=1.3", "rollout.max_repeats=3"]),
    )
    tasks = across_families([task for task in load(file) if can_rescue(task)], 24)
    async with open_workbench(resolved(recipe, train=tasks), tasks) as bench:
        episodes = await play_all(bench.collector(group_size=1), tasks)
        found = await rescued(bench, episodes)
    assert found.num_played == 24
    assert len(found.troubles) > 1, found
    assert len(found.lessons) >= sum(found.discarded.values()), found
    plan_lengths = {task.id: len(task.demonstration) for task in tasks}
    sampled = {played.task.id: played for played, _ in episodes}
    for lesson in found.lessons:
        own = [turn for turn in sorted(set(lesson.turns)) if turn >= 0]
        context = lesson.token_ids[: lesson.loss_mask.index(1)]
        kept = sampled[lesson.task_id].turns[: own[0]]
        ids = [token for turn in kept for token in (*turn.new_ids, *turn.completion.token_ids)]
        assert list(context[: len(ids)]) == ids
        assert len(own) <= plan_lengths[lesson.task_id]
