"""Starts inside plans: half of the way nearer to the end after a failure, back after a success."""

import json
import random

from turnwise.tasks.plan_starts import PlanStarts, PlayedGroup, plan_starts_of
from turnwise.types import DemoTurn, Task


def planned(name: str = "t", num_turns: int = 5, family: str = "f") -> Task:
    return Task(name, "Do it.", family=family, demonstration=[DemoTurn(f"{n}") for n in range(num_turns)])


def after(*played: tuple[int, float], task: Task | None = None) -> PlanStarts:
    task = task or planned()
    return PlanStarts().noted(PlayedGroup(task, num_given, success) for num_given, success in played)


def test_a_task_that_fails_starts_half_of_the_remaining_way_nearer_to_the_last_turn() -> None:
    failed = [(0, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)]
    assert [after(*failed[:count]).tasks["t"] for count in (1, 2, 3, 4)] == [2, 3, 4, 4]


def test_a_task_that_succeeds_moves_back_to_the_beginning_and_stays_where_members_differ() -> None:
    there = [(0, 0.0), (2, 0.0), (3, 0.0)]
    back = [(4, 1.0), (2, 0.5), (1, 0.75)]
    assert [after(*there, *back[:count]).tasks["t"] for count in (1, 2, 3)] == [2, 1, 0]
    assert after(*there, (4, 0.25)).tasks["t"] == 4


def test_a_check_from_the_beginning_that_fails_changes_nothing_and_one_that_succeeds_ends_it() -> None:
    assert after((0, 0.0), (2, 0.0), (0, 0.0)).tasks["t"] == 3
    assert after((0, 0.0), (2, 0.0), (0, 0.125)).tasks["t"] == 0


def starts_of(starts: PlanStarts, task: Task) -> list[int]:
    """Where the task starts at 200 different moments of the run."""
    return [
        PlanStarts(n, starts.num_noted, starts.tasks, starts.families).num_given(task) for n in range(200)
    ]


def test_a_quarter_of_the_groups_is_checked_from_the_beginning() -> None:
    given = starts_of(after((0, 0.0)), planned())
    assert set(given) == {0, 2}
    assert 30 <= given.count(0) <= 70


def test_an_unplayed_task_starts_where_its_family_has_arrived_and_other_families_at_the_beginning() -> None:
    starts = after(*[(0, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)] * 3)
    assert set(starts_of(starts, planned("new"))) == {0, 4}
    assert set(starts_of(starts, planned("short", num_turns=2))) == {0, 1}
    assert set(starts_of(starts, planned("other", family="g"))) == {0}
    mastered = after((0, 1.0), (0, 0.5), (0, 1.0))
    assert set(starts_of(mastered, planned("new"))) == {0}


def test_the_last_turn_is_never_given_and_a_task_without_a_plan_starts_at_the_beginning() -> None:
    for num_turns in (0, 1):
        task = planned(num_turns=num_turns)
        starts = after(*[(0, 0.0)] * 5, task=task)
        assert set(starts_of(starts, task)) == {0}
        assert (starts.tasks, starts.families) == ({}, {})


def test_a_round_trip_through_json_is_exact_and_the_same_state_gives_the_same_starts() -> None:
    rng = random.Random(0)
    tasks = [planned(f"t{n}", num_turns=1 + n % 7, family=f"f{n % 3}") for n in range(20)]
    starts = PlanStarts(5).noted(
        PlayedGroup(task, starts_given, rng.choice([0.0, 0.25, 1.0]))
        for task in tasks * 5
        for starts_given in [rng.randrange(max(len(task.demonstration), 1))]
    )
    restored = plan_starts_of(json.loads(json.dumps(starts.as_json())))
    assert restored == starts
    assert [restored.num_given(task) for task in tasks] == [starts.num_given(task) for task in tasks]
