"""Tests of falls: known answers, and simulations of their false alarms and of how soon they see a fall."""

import json
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from turnwise.run.health.falls import (
    EVERYTHING,
    GROUPS_PER_FALSE_ALARM,
    FallTest,
    FallTests,
    falls_as_json,
    falls_of,
    watch,
)
from turnwise.tasks.learnability import LearnableTasks
from turnwise.tasks.success_record import GroupOutcome, SuccessRecord, with_outcomes

NUM_MEMBERS = 8
TWO_OF_A_KIND = {"a": ("fa", "easy"), "b": ("fa", "easy")}
Alarms = list[tuple[int, str]]


def test_a_group_pays_by_how_far_its_share_is_below_the_predicted_one() -> None:
    # predicted .85, less the margin .8: a share of 0 wins .8 / .2 = 4 stakes, one of 1 loses its stake
    failed = FallTest().after(3, 0.0, 0.85)
    assert failed.evidence == pytest.approx((2, 3, 4))
    assert failed.strength == pytest.approx(3)
    assert failed.after(4, 0.0, 0.85).evidence == pytest.approx((6, 12, 20))
    assert FallTest().after(3, 1.0, 0.85).evidence == pytest.approx((0.75, 0.5, 0.25))
    assert FallTest().after(3, 0.8, 0.85).evidence == pytest.approx((1, 1, 1))


def test_a_group_that_was_expected_to_fail_says_nothing() -> None:
    assert FallTest().after(3, 0.0, 0.05) == FallTest()


def test_a_fall_begins_where_its_evidence_does() -> None:
    test = FallTest()
    for step in range(5):
        test = test.after(step, 1.0, 0.85)
    for step in (5, 6):
        test = test.after(step, 0.0, 0.85)
    assert (test.since, test.num_groups, test.share) == (5, 2, 0.0)


def test_evidence_grows_by_one_group_on_average_if_success_is_as_predicted() -> None:
    # the theorem's condition: E[after] ≤ before + 1, with equality if the share's mean is just the null's
    before = FallTest((7.0, 7.0, 7.0))
    share = {0.0: 0.5, 0.6: 0.25, 1.0: 0.25}  # of mean .4
    for stake in range(3):
        mean = sum(chance * before.after(0, k, 0.45).evidence[stake] for k, chance in share.items())
        assert mean == pytest.approx(8)


def test_groups_inside_a_plan_and_single_episodes_are_not_tested() -> None:
    for outcome in (GroupOutcome(1, 0, 8, num_given=2), GroupOutcome(1, 0, 1)):
        found = watch({}, [("b", outcome)], TWO_OF_A_KIND, {"a": (GroupOutcome(0, 8, 8),)}, 1)
        assert (found.tests, found.evidence, found.detail) == ({}, 0.0, "")


def test_what_succeeded_only_inside_its_plan_predicts_no_success() -> None:
    def evidence(num_given: int) -> float:
        record = {"a": (GroupOutcome(0, 8, 8, num_given),)}
        return watch({}, [("b", GroupOutcome(1, 0, 8))], TWO_OF_A_KIND, record, 1).evidence

    assert evidence(0) > 1.5
    assert evidence(1) < 1.2


def test_harder_tasks_than_before_are_no_fall() -> None:
    kinds = {f"{level}{n}": ("f", level) for level in ("easy", "hard") for n in range(40)}
    record = {f"easy{n}": (GroupOutcome(0, 8, 8),) for n in range(40)}
    hard = [(f"hard{n}", GroupOutcome(1, 0, 8)) for n in range(40)]
    assert watch({}, hard, kinds, record, 1).detail == ""
    easy = [(f"easy{n}", GroupOutcome(1, 0, 8)) for n in range(40)]
    assert "f: success 0.00 in 40 groups since step 2, " in watch({}, easy, kinds, record, 1).detail


def test_repeated_tasks_are_first_recorded_then_tested_by_family_and_together() -> None:
    kinds = {f"{family}{n}": (family, "easy") for family in "fg" for n in range(20)}
    good = [(task_id, GroupOutcome(10, 4, 4)) for task_id in kinds]
    first = watch({}, good, kinds, {}, 10, is_repeated=True)
    assert first.tests == {}
    worse = [(task_id, GroupOutcome(20, 4 * (task_id[0] == "f"), 4)) for task_id in kinds]
    second = watch({}, worse, kinds, with_outcomes({}, good), 20, is_repeated=True)
    assert second.tests.keys() == {"f", "g", EVERYTHING}
    assert "g: success 0.00" in second.detail
    assert "f: " not in second.detail.replace("g: ", "")
    assert second.tests["g"] == FallTest(), "after its alarm a test begins again"


def test_the_state_survives_json() -> None:
    tests = {"a": FallTest().after(3, 0.1, 0.85), "b": FallTest().after(4, 0.7, 0.3)}
    assert falls_of(json.loads(json.dumps(falls_as_json(tests)))) == tests


def simulated(
    seed: int, falling: Callable[[int], float], *, num_steps: int = 40, is_by_plans: bool = False
) -> tuple[Alarms, float]:
    """Alarms and the strongest evidence of a run by learnability; `falling` scales family 0 by step."""
    rng = random.Random(seed)
    laws: list[Callable[[], float]] = [
        lambda: rng.betavariate(8, 0.5),
        lambda: 0.0,
        lambda: rng.betavariate(0.3, 0.3),
    ]
    laws += [lambda: rng.betavariate(3, 3), lambda: rng.betavariate(0.5, 2)]
    chances = {f"{family}-{n}": law() for family, law in enumerate(laws) for n in range(40)}
    kinds = {task_id: (task_id[0], "easy") for task_id in chances}
    tasks: Any = [SimpleNamespace(id=task_id, family=task_id[0]) for task_id in chances]
    record: SuccessRecord = {}
    tests: FallTests = {}
    alarms: Alarms = []
    strongest, num_drawn = 0.0, 0
    for step in range(num_steps):
        learnable = LearnableTasks(tasks, record, step=step, num_members=NUM_MEMBERS)
        drawn: dict[str, GroupOutcome] = {}
        while len(drawn) < 10:
            task = learnable.draw(str(seed), num_drawn, drawn)
            assert task is not None
            chance = chances[task.id] * (falling(step) if task.family == "0" else 1.0)
            last = record.get(task.id, ())
            num_given = int(is_by_plans and bool(last) and not last[-1].num_successes)
            chance = 0.8 if num_given else chance
            successes = sum(rng.random() < chance for _ in range(NUM_MEMBERS))
            drawn[task.id] = GroupOutcome(step, successes, NUM_MEMBERS, num_given)
            num_drawn += 1
        found = watch(tests, drawn.items(), kinds, record, step)
        tests, record = found.tests, with_outcomes(record, drawn.items())
        strongest = max(strongest, found.evidence)
        if found.detail:
            alarms.append((step, found.detail))
    return alarms, strongest


@pytest.mark.parametrize("is_by_plans", [False, True])
def test_without_a_fall_evidence_stays_far_below_the_alarm(is_by_plans: bool) -> None:
    # 6 runs of 400 groups: at most .05 false alarms by the theorem
    runs = [simulated(seed, lambda step: 1.0, is_by_plans=is_by_plans) for seed in range(6)]
    assert [alarms for alarms, _ in runs] == [[]] * 6
    assert max(strongest for _, strongest in runs) < GROUPS_PER_FALSE_ALARM / 20


def test_a_family_that_falls_is_named_within_a_few_groups() -> None:
    for seed in range(3):
        alarms, _ = simulated(seed, lambda step: 1.0 if step < 20 else 0.05)
        step, detail = alarms[0]
        assert 20 < step < 40  # two groups a step in the mean, fewer of a family that was mastered
        assert detail.startswith("0: success ")
