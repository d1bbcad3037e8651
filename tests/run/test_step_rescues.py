"""A run that imitates rescues of its own failures: what is rescued, and that it resumes exactly."""

import json
from dataclasses import replace
from pathlib import Path

from tests.rollout.stage import small_chat, task
from tests.run.demonstrations.test_lessons import roomy
from tests.run.demonstrations.test_rescue_samples import READ, WRITE, once, played_by
from tests.run.test_resume import COMMON, check_identical, play_unbroken_and_broken
from tests.setup.resolved import resolved
from tests.shown import sound_setup
from turnwise.run.step_rescues import rescues_of
from turnwise.setup.bench import open_workbench
from turnwise.system.ranks import ALONE
from turnwise.types import Answer, DemoTurn, ExpectedWrite, Group, Task, Truth


async def test_groups_in_which_no_member_succeeds_are_rescued_once_and_only_some(tmp_path: Path) -> None:
    tasks = [replace(once(), id=f"t{number}") for number in range(4)]
    async with open_workbench(resolved(roomy(sound_setup(tmp_path))).demonstrated(), tasks) as bench:
        right = await played_by(bench, tasks[0], [[WRITE], [READ], "done"])
        wrong = [await played_by(bench, task, [[WRITE], "no"]) for task in tasks]
        mixed = Group(tasks[0], (wrong[0][0], right[0]), (wrong[0][1], right[1]))
        flat = [
            Group(task, (played[0], played[0]), (played[1], played[1]))
            for task, played in zip(tasks[1:], wrong[1:], strict=True)
        ]
        found = await rescues_of(bench, [mixed, *flat], 2, ALONE)
    assert [lesson.task_id for lesson in found.lessons] == ["t1", "t2"]
    assert found.figures == {"rescues/attempted": 2.0, "rescues/kept": 2.0}


def planned_task(name: str) -> Task:
    """A task that the chat of `resuming.py` lets the plan do, and the random model hardly ever.

    That chat reads n ids as "done" if their sum is a multiple of 4, and otherwise as write(n) and read.
    """
    chat, calls = small_chat(), (WRITE, READ)
    acting, ending = chat.say("", calls), chat.say("bb")
    assert sum(acting) % 4
    assert sum(ending) % 4 == 0
    written = ExpectedWrite("write", {"text": str(len(acting))})
    plan = (DemoTurn("", calls), DemoTurn("bb"))
    return replace(task(name, demonstration=plan), truth=Truth(Answer("done"), writes=(written,)))


def test_a_run_that_imitates_rescues_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = {
        **COMMON,
        "run": {**COMMON["run"], "num_steps": 2},
        "rollout": {**COMMON["rollout"], "tokens_per_turn": 48},
        "curriculum": {"plan_starts": False},
        "imitation": {"weight": 0.5, "num_steps": 4, "lessons": "rescues"},
    }
    tasks = [planned_task(f"train{number}") for number in range(4)]
    unbroken, broken = play_unbroken_and_broken(tmp_path, settings, tasks, ("update:4",))
    check_identical(unbroken, broken, 2)
    lines = [json.loads(line)["metrics"] for line in broken.metrics.read_text().splitlines()]
    assert [line["rescues/kept"] > 0 for line in lines if "rescues/kept" in line] == [True, True]
    assert all(line["loss/imitation"] > 0 for line in lines if "loss/policy" in line)
