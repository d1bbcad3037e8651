"""Temperatures by family: known answers of one move, its bounds, and what moves nothing."""

import json
import math

import pytest

from turnwise.tasks.success_record import Estimates, GroupOutcome, SuccessRecord, with_outcomes
from turnwise.tasks.temperatures import MOST, FamilyTemperatures, SampledGroup, standard_errors
from turnwise.types import Task

HALF: SuccessRecord = with_outcomes({}, [("f1", GroupOutcome(0, 8, 8)), ("f2", GroupOutcome(0, 0, 8))])
"""A family of which one task always succeeds and the other always fails: at any time half of it is known."""


def estimates(record: SuccessRecord = HALF) -> Estimates:
    return Estimates({"f1": "f", "f2": "f", "g1": "g"}, record, 0)


def flat(count: int = 1, family: str = "f") -> list[SampledGroup]:
    return [SampledGroup(family, False, 0.0)] * count


def differing(count: int = 1, family: str = "f") -> list[SampledGroup]:
    return [SampledGroup(family, True, 0.0)] * count


def of(temperatures: FamilyTemperatures, family: str = "f") -> float:
    return temperatures.factor(Task("t", "Do it.", family=family))


def test_the_distance_from_the_goal_is_counted_in_standard_errors() -> None:
    # at a success of 1/2 the goal is 1/2, whose standard deviation is 1/2
    assert standard_errors([False], 0.5, 8) == pytest.approx(1)
    assert standard_errors([False] * 4, 0.5, 8) == pytest.approx(2)
    assert standard_errors([True] * 3 + [False], 0.5, 8) == pytest.approx(-1)
    # two members that succeed with 1/2 differ in half of the groups: the goal is 3/8
    assert standard_errors([False], 0.5, 2) == pytest.approx(math.sqrt(3 / 5))


def test_where_success_leaves_little_to_differ_little_is_wanted() -> None:
    # 1 − .9⁸ − .1⁸ = .5695: three quarters of it, .4271
    assert standard_errors([False], 0.9, 8) == pytest.approx(math.sqrt(0.42715 / 0.57285), abs=1e-4)
    assert standard_errors([False] * 9, 0.99, 8) == pytest.approx(
        3 * math.sqrt(0.057941 / 0.942059), abs=1e-4
    )
    assert standard_errors([False] * 9, 0.01, 8) == pytest.approx(standard_errors([False] * 9, 0.99, 8))
    assert standard_errors([False] * 9, 1.0, 8) == standard_errors([False] * 9, 0.0, 8) == 0
    # one group that differs is far more than a mastered family should have
    assert standard_errors([True], 0.99, 8) < -4


def test_flat_groups_raise_the_temperature_and_differing_ones_lower_it() -> None:
    warm = FamilyTemperatures().after(flat(4), estimates(), 8)
    assert of(warm) == pytest.approx(math.exp(0.1))
    assert of(warm.after(differing(1), estimates(), 8)) == pytest.approx(math.exp(0.05))
    balanced = [*flat(2), *differing(2)]
    assert of(warm.after(balanced, estimates(), 8)) == pytest.approx(of(warm))


def test_it_stays_between_the_recipes_temperature_and_one_and_a_half_times_it() -> None:
    assert of(FamilyTemperatures().after(differing(9), estimates(), 8)) == 1
    hot = FamilyTemperatures()
    for _ in range(50):
        hot = hot.after(flat(9), estimates(), 8)
    assert of(hot) == MOST == 1.5


def test_malformed_turns_lower_it_although_members_do_not_differ() -> None:
    warm = FamilyTemperatures({"f": 1.3})
    assert of(warm.after([SampledGroup("f", False, 0.11)], estimates(), 8)) == pytest.approx(
        1.3 / math.exp(0.05)
    )
    assert of(warm.after([SampledGroup("f", False, 0.1)], estimates(), 8)) == pytest.approx(
        1.3 * math.exp(0.05)
    )


def test_a_mastered_family_a_hopeless_one_and_one_that_was_not_played_keep_theirs() -> None:
    outcomes = [(f"f{n}", GroupOutcome(0, 8, 8)) for n in range(40)]
    failures = [(f"g{n}", GroupOutcome(0, 0, 8)) for n in range(40)]
    record = with_outcomes({}, [*outcomes, *failures])
    families = {task_id: task_id[0] for task_id in record}
    after = FamilyTemperatures().after([*flat(4), *flat(4, "g")], Estimates(families, record, 0), 8)
    assert of(after) < 1.01
    assert of(after, "g") < 1.01
    assert of(FamilyTemperatures({"f": 1.2}).after(flat(4, "g"), estimates(), 8)) == 1.2
    assert of(FamilyTemperatures().after(flat(4), estimates(), 8), "new") == 1


def test_a_group_of_one_moves_nothing() -> None:
    assert of(FamilyTemperatures({"f": 1.2}).after(flat(4), estimates(), 1)) == 1.2


def test_a_round_trip_through_json_is_exact() -> None:
    factors = FamilyTemperatures().after([*flat(3), *flat(1, "g")], estimates(), 8).factors
    assert json.loads(json.dumps(factors)) == factors
