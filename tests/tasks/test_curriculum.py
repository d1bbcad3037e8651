"""Mixtures and promotion by known answers; draws do not repeat and continue exactly after a restore."""

import json
from collections import Counter

import pytest

from turnwise.tasks.curriculum import (
    BySuccess,
    Curriculum,
    CurriculumState,
    Schedule,
    draw,
    least_choice,
    note,
    state_of,
)
from turnwise.types import Difficulty, Message, Task, Truth

EASY, MEDIUM, HARD = Difficulty.EASY, Difficulty.MEDIUM, Difficulty.HARD
EVEN = Schedule()
CLIMB = Schedule(((0, (1, 0, 0)), (100, (0, 1, 0)), (200, (0.25, 0.25, 0.5))))


def some(**counts: int) -> tuple[Task, ...]:
    return tuple(
        Task(f"{level}{number}", (Message("user", "?"),), (), Truth(), difficulty=Difficulty(level))
        for level, count in counts.items()
        for number in range(count)
    )


def levels(tasks: tuple[Task, ...]) -> Counter[str]:
    return Counter(str(task.difficulty) for task in tasks)


def after(
    curriculum: BySuccess, state: CurriculumState, difficulty: Difficulty, outcomes: str
) -> CurriculumState:
    for outcome in outcomes:
        state = note(curriculum, state, difficulty, outcome == "+")
    return state


@pytest.mark.parametrize(
    ("step", "mixture"),
    [
        *((0, (1, 0, 0)), (25, (0.75, 0.25, 0)), (50, (0.5, 0.5, 0)), (100, (0, 1, 0))),
        *((150, (0.125, 0.625, 0.25)), (200, (0.25, 0.25, 0.5)), (9999, (0.25, 0.25, 0.5))),
    ],
)
def test_a_schedule_is_linear_between_its_points(step: int, mixture: tuple[float, ...]) -> None:
    assert CLIMB.mixture(CurriculumState(), step) == pytest.approx(mixture)


@pytest.mark.parametrize(
    "points", [(), ((1, (1, 0, 0)),), ((0, (1, 0, 0)), (0, (0, 1, 0))), ((0, (0, 0, 0)),), ((0, (2, -1, 0)),)]
)
def test_a_schedule_that_makes_no_sense_is_refused(points: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match="points"):
        Schedule(points)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", [{"threshold": 0}, {"threshold": 1.1}, {"window": 0}, {"review": 1}])
def test_a_success_rule_that_makes_no_sense_is_refused(field: dict[str, float]) -> None:
    [name] = field
    with pytest.raises(ValueError, match=name):
        BySuccess(**field)  # type: ignore[arg-type]


def test_a_level_is_passed_when_enough_of_the_last_episodes_succeeded() -> None:
    rule = BySuccess(threshold=0.75, window=4)
    assert after(rule, CurriculumState(), EASY, "+++").level == 0  # three say too little
    assert after(rule, CurriculumState(), EASY, "+-+-").level == 0
    assert after(rule, CurriculumState(), EASY, "--+-+++").level == 1  # after six, the last four are +-++
    passed = after(rule, CurriculumState(), EASY, "+++-")
    assert (passed.level, passed.recent) == (1, ())


def test_outcomes_of_other_levels_do_not_count() -> None:
    rule = BySuccess(threshold=0.5, window=2)
    assert after(rule, CurriculumState(), MEDIUM, "++++") == CurriculumState()
    assert after(rule, CurriculumState(level=1), EASY, "++++") == CurriculumState(level=1)


def test_the_last_level_is_never_left() -> None:
    rule = BySuccess(threshold=0.5, window=2)
    state = after(rule, CurriculumState(level=2), HARD, "+++++")
    assert (state.level, state.recent) == (2, (True, True))


def test_passed_levels_share_the_review() -> None:
    rule = BySuccess(review=0.2)
    assert rule.mixture(CurriculumState(level=0), 0) == (1, 0, 0)
    assert rule.mixture(CurriculumState(level=1), 0) == (0.2, 0.8, 0)
    assert rule.mixture(CurriculumState(level=2), 0) == (0.1, 0.1, 0.8)


def test_outcomes_change_nothing_in_a_schedule() -> None:
    assert note(CLIMB, CurriculumState(), EASY, True) == CurriculumState()


def test_every_task_is_drawn_once_before_any_is_drawn_again() -> None:
    tasks = some(easy=5, medium=3)
    state = CurriculumState(seed=3)
    seen: list[str] = []
    for _ in range(40):
        drawn, state = draw(tasks, EVEN, state, step=0, count=3)
        seen.extend(task.id for task in drawn)
    for level, size in (("easy", 5), ("medium", 3)):
        own = [name for name in seen if name.startswith(level)]
        rounds = [own[start : start + size] for start in range(0, len(own) - size + 1, size)]
        assert len(rounds) > 5
        assert all(len(set(one_round)) == size for one_round in rounds)
        assert len({tuple(one_round) for one_round in rounds}) > 1, "every epoch has its own order"


def test_the_mixture_is_what_is_drawn() -> None:
    tasks = some(easy=10, medium=10, hard=10)
    assert set(levels(draw(tasks, CLIMB, CurriculumState(), step=0, count=50)[0])) == {"easy"}
    assert set(levels(draw(tasks, CLIMB, CurriculumState(), step=100, count=50)[0])) == {"medium"}
    found = levels(draw(tasks, CLIMB, CurriculumState(), step=200, count=2000)[0])
    # Three standard deviations of a binomial with 2,000 draws are at most 68.
    assert abs(found["hard"] - 1000) < 68
    assert abs(found["easy"] - 500) < 68


@pytest.mark.parametrize("curriculum", [CLIMB, BySuccess(window=3)])
def test_a_restored_state_continues_exactly(curriculum: Curriculum) -> None:
    tasks = some(easy=4, medium=4, hard=4)

    def play(state: CurriculumState, steps: range, *, is_saved: bool) -> tuple[list[str], CurriculumState]:
        seen = []
        for step in steps:
            drawn, state = draw(tasks, curriculum, state, step=step * 10, count=5)
            for task in drawn:
                state = note(curriculum, state, task.difficulty, True)
            seen.extend(task.id for task in drawn)
            if is_saved:
                state = state_of(json.loads(json.dumps(state.as_json())))
        return seen, state

    whole = play(CurriculumState(seed=1), range(20), is_saved=False)
    assert play(CurriculumState(seed=1), range(20), is_saved=True) == whole
    assert len(set(whole[0])) == 12
    assert play(CurriculumState(seed=2), range(20), is_saved=False)[0] != whole[0]


def test_drawing_in_parts_is_drawing_at_once() -> None:
    tasks = some(easy=3, hard=2)
    whole, end = draw(tasks, EVEN, CurriculumState(), step=0, count=9)
    first, state = draw(tasks, EVEN, CurriculumState(), step=0, count=4)
    second, state = draw(tasks, EVEN, state, step=0, count=5)
    assert (first + second, state) == (whole, end)


def test_a_level_without_tasks_gives_its_share_away() -> None:
    assert levels(draw(some(hard=2), CLIMB, CurriculumState(), step=0, count=4)[0]) == {"hard": 4}
    drawn, _ = draw(some(easy=2, medium=2), CLIMB, CurriculumState(), step=200, count=40)
    assert set(levels(drawn)) == {"easy", "medium"}


def test_a_level_without_tasks_is_skipped() -> None:
    rule = BySuccess(window=2)
    drawn, state = draw(some(medium=2, hard=2), rule, CurriculumState(), step=0, count=4)
    assert (levels(drawn), state.level) == ({"medium": 4}, 1)
    state = after(rule, state, MEDIUM, "++")
    assert draw(some(easy=1), rule, state, step=0, count=1)[1].level == 2


def test_no_tasks_at_all_is_an_error() -> None:
    with pytest.raises(ValueError, match="no tasks to draw from"):
        draw((), EVEN, CurriculumState(), step=0, count=1)


@pytest.mark.parametrize(
    ("curriculum", "expected"),
    [
        (EVEN, (6, 0)),
        (CLIMB, (1, 0)),
        (Schedule(((0, (0, 1, 1)), (5, (0, 0, 1)))), (3, 5)),
        (BySuccess(review=0.0), (1, 0)),
        (BySuccess(review=0.2), (1, 0)),
    ],
)
def test_the_fewest_tasks_that_a_step_can_draw_from_are_counted(
    curriculum: Curriculum, expected: tuple[int, int]
) -> None:
    assert least_choice(some(easy=1, medium=2, hard=3), curriculum, num_steps=300) == expected


def test_a_level_without_tasks_leaves_the_choice_to_the_others() -> None:
    assert least_choice(some(hard=3), CLIMB, num_steps=300) == (3, 0)
    assert least_choice(some(medium=2, hard=3), BySuccess(review=0.0), num_steps=1) == (2, 0)
