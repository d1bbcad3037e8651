"""The estimates of success and the draw by learnability: hand-worked numbers, floors, and calibration."""

import json
import random
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest

from turnwise.tasks.learnability import CHECK_EVERY, LearnableTasks
from turnwise.tasks.success_record import (
    MAX_GROUPS_KEPT,
    Beta,
    Estimates,
    GroupOutcome,
    SuccessRecord,
    record_as_json,
    record_of,
    with_outcomes,
)
from turnwise.types import Message, Task, Truth


def task(name: str, family: str) -> Task:
    return Task(name, (Message("user", "?"),), (), Truth(), family=family)


def tasks_of(**counts: int) -> tuple[Task, ...]:
    return tuple(
        task(f"{family}{number}", family) for family, count in counts.items() for number in range(count)
    )


# --- the estimate ------------------------------------------------------------------------------------------


def test_the_chance_that_a_group_differs_has_a_closed_form() -> None:
    # uniform p: E[p^n] = 1/(n + 1), so 1 − 2/9 for eight members and 1 − 2/3 for two
    assert Beta(1, 1).chance_to_differ(8) == pytest.approx(7 / 9)
    assert Beta(1, 1).chance_to_differ(2) == pytest.approx(1 / 3)
    # Beta(2, 1): E[p³] = 2·3·4/(3·4·5) = 2/5, E[(1 − p)³] = 1·2·3/(3·4·5) = 1/10
    assert Beta(2, 1).chance_to_differ(3) == pytest.approx(1 / 2)
    assert Beta(4, 4).chance_to_differ(8) > 0.85 > 0.2 > Beta(40, 0.2).chance_to_differ(8) * 4


def test_the_chance_of_each_count_is_the_beta_binomial() -> None:
    assert [Beta(1, 1).chance_of(k, 4) for k in range(5)] == pytest.approx([1 / 5] * 5)
    # Beta(2, 1), two members: E[(1 − p)²] = 1/6, 2 E[p (1 − p)] = 1/3, E[p²] = 1/2
    assert [Beta(2, 1).chance_of(k, 2) for k in range(3)] == pytest.approx([1 / 6, 1 / 3, 1 / 2])
    law = [Beta(0.7, 2.3).chance_of(k, 8) for k in range(9)]
    assert sum(law) == pytest.approx(1)
    assert 1 - law[0] - law[8] == pytest.approx(Beta(0.7, 2.3).chance_to_differ(8))


def test_a_family_starts_from_one_group_of_the_population_and_a_task_from_its_family() -> None:
    families = {"a0": "a", "a1": "a", "b0": "b"}
    record: SuccessRecord = {"a0": (GroupOutcome(0, 4, 4),)}
    estimates = Estimates(families, record, step=0)
    # all families: a group of any p (1/2, 1/3) and that of `a` (1, 1): E[p] = 3/4, E[p²] = 2/3
    # strength (3/4 − 2/3)/(2/3 − 9/16) = 4/5, so Beta(3/5, 1/5) is what is known of family b
    unknown = estimates.of("b0")
    assert (unknown.successes, unknown.failures) == pytest.approx((3 / 5, 1 / 5))
    # family a: E[p] = 7/8 and E[p²] = 5/6 give its strength, (1/24)/(5/6 − 49/64) = 8/13; in its mean the
    # population counts as a tenth of a group: (1 + 3/40)/(11/10) = 43/44
    sibling = estimates.of("a1")
    assert (sibling.successes, sibling.failures) == pytest.approx((86 / 143, 2 / 143))
    # the task itself: its four successes are added
    own = estimates.of("a0")
    assert (own.successes, own.failures) == pytest.approx((4 + 86 / 143, 2 / 143))


def test_an_outcome_counts_half_after_ten_steps() -> None:
    record: SuccessRecord = {"a0": (GroupOutcome(0, 0, 8), GroupOutcome(10, 8, 8))}
    estimates = Estimates({"a0": "a"}, record, step=20)
    prior, own = estimates.prior("a"), estimates.of("a0")
    assert own.successes - prior.successes == pytest.approx(8 * 0.5)
    assert own.failures - prior.failures == pytest.approx(8 * 0.25)


def test_a_task_that_is_played_often_counts_once_in_its_family() -> None:
    families = {"a0": "a", "a1": "a", "a2": "a"}
    often = with_outcomes({}, [("a0", GroupOutcome(step, 8, 8)) for step in range(4)])
    record = with_outcomes(often, [("a1", GroupOutcome(3, 0, 8))])
    assert Estimates(families, record, step=3).of("a2").mean == pytest.approx(0.5)


def test_outcomes_noted_one_by_one_are_outcomes_read_at_once() -> None:
    rng = random.Random(0)
    families = {f"{family}{number}": family for family in "abc" for number in range(5)}
    outcomes = [(rng.choice(list(families)), GroupOutcome(7, rng.randrange(9), 8)) for _ in range(40)]
    noted = Estimates(families, {}, step=7)
    for task_id, outcome in outcomes:
        noted.note(task_id, outcome)
    read = Estimates(families, with_outcomes({}, outcomes), step=7)
    for family in "abc":
        assert noted.prior(family).successes == pytest.approx(read.prior(family).successes)
        assert noted.prior(family).failures == pytest.approx(read.prior(family).failures)


def test_a_record_survives_json_and_keeps_the_latest_groups() -> None:
    record = with_outcomes({}, [("a", GroupOutcome(step, step, 8)) for step in range(6)])
    assert [outcome.step for outcome in record["a"]] == list(range(6 - MAX_GROUPS_KEPT, 6))
    assert record_of(json.loads(json.dumps(record_as_json(record)))) == record


def test_groups_of_one_never_break_the_estimates() -> None:
    estimates = Estimates({"a": "a"}, {"a": (GroupOutcome(0, 1, 1),)}, step=0)
    assert 0 < estimates.of("a").mean < 1
    some = LearnableTasks(tasks_of(a=2), {}, step=0, num_members=1)
    assert some.draw("0", 0, ()) is not None


# --- the draw ----------------------------------------------------------------------------------------------


def drawn_counts(learnable: LearnableTasks, count: int) -> Counter[str]:
    drawn: Counter[str] = Counter()
    for number in range(count):
        chosen = learnable.draw("0", number, ())
        assert chosen is not None
        drawn[chosen.id] += 1
    return drawn


def test_draws_follow_the_cubed_chance_except_for_the_checks() -> None:
    tasks = tasks_of(mastered=1, open=1)
    outcomes = [
        (name, GroupOutcome(0, *counts)) for name, counts in (("mastered0", (8, 8)), ("open0", (4, 8)))
    ]
    learnable = LearnableTasks(tasks, with_outcomes({}, outcomes), step=1, num_members=8)
    low, high = (learnable.chance(one) for one in tasks)
    assert low < 0.3 < 0.8 < high
    count = 8_000
    share = drawn_counts(learnable, count)["mastered0"] / count
    # an eighth are checks, even over both families; the others are in proportion to the cubes
    expected = 1 / CHECK_EVERY / 2 + (1 - 1 / CHECK_EVERY) * low**3 / (low**3 + high**3)
    assert share == pytest.approx(expected, abs=3 * (0.25 / count) ** 0.5)


def test_an_unseen_task_is_as_learnable_as_its_family() -> None:
    tasks = tasks_of(mastered=10, open=10)
    outcomes = [(f"mastered{n}", GroupOutcome(0, 8, 8)) for n in range(4)]
    outcomes += [(f"open{n}", GroupOutcome(0, 3 + n % 3, 8)) for n in range(4)]
    learnable = LearnableTasks(tasks, with_outcomes({}, outcomes), step=1, num_members=8)
    assert learnable.chance(tasks[19]) > 0.8 > 0.2 > learnable.chance(tasks[9])


def test_no_task_is_drawn_twice_and_at_the_end_none_is_left() -> None:
    learnable = LearnableTasks(tasks_of(a=5, b=5), {}, step=0, num_members=8)
    drawn: set[str] = set()
    for number in range(10):
        chosen = learnable.draw("3", number, drawn)
        assert chosen is not None
        drawn.add(chosen.id)
    assert len(drawn) == 10
    assert learnable.draw("3", 10, drawn) is None


def play(
    tasks: tuple[Task, ...], rates: Mapping[str, float], *, num_steps: int, seed: int, num_drawn: int = 16
) -> tuple[SuccessRecord, list[tuple[Task, float, bool]]]:
    """Draw and play by binomial luck; returns the record and every group's predicted and real difference."""
    rng = random.Random(seed)
    record: SuccessRecord = {}
    played = []
    number = 0
    for step in range(num_steps):
        learnable = LearnableTasks(tasks, record, step=step, num_members=8)
        drawn: dict[str, GroupOutcome] = {}
        for _ in range(num_drawn):
            chosen = learnable.draw(str(seed), number, drawn)
            assert chosen is not None
            number += 1
            successes = sum(rng.random() < rates[chosen.id] for _ in range(8))
            drawn[chosen.id] = GroupOutcome(step, successes, 8)
            played.append((chosen, learnable.chance(chosen), 0 < successes < 8))
        record = with_outcomes(record, drawn.items())
    return record, played


def test_every_family_is_checked_within_its_turn_however_hopeless() -> None:
    tasks = tasks_of(**{f"family{n}x": 20 for n in range(10)})
    rates = {one.id: 0.5 if one.family == "family0x" else 0.0 for one in tasks}
    _, played = play(tasks, rates, num_steps=40, seed=1)
    for start in range(
        20, 30
    ):  # 16 draws a step have two checks: ten families take five steps, and some slack
        families = {one.family for one, *_ in played[start * 16 : (start + 7) * 16]}
        assert len(families) == 10


def mixed() -> tuple[tuple[Task, ...], dict[str, float]]:
    """Ten families as after a warm start: half mastered, a few hopeless, some in between."""
    tasks = tasks_of(**{f"family{n}x": 40 for n in range(10)})
    means = [0.99, 0.99, 0.98, 0.97, 0.95, 0.9, 0.7, 0.3, 0.02, 0.0]
    rng = random.Random(9)
    rates = {}
    for one in tasks:
        mean = means[int(one.family[6])]
        rates[one.id] = rng.betavariate(6 * mean, 6 * (1 - mean)) if 0 < mean < 1 else mean
    return tasks, rates


def test_most_drawn_groups_differ_where_few_would_under_an_even_draw() -> None:
    tasks, rates = mixed()
    even = sum(1 - rate**8 - (1 - rate) ** 8 for rate in rates.values()) / len(rates)
    assert even < 0.3
    for seed in range(3):
        _, played = play(tasks, rates, num_steps=40, seed=seed)
        late = played[5 * 16 :]
        assert sum(differs for *_, differs in late) / len(late) > 0.72


def test_the_predicted_share_is_close_to_what_happens() -> None:
    tasks, rates = mixed()
    predicted = happened = 0.0
    for seed in range(5):
        _, played = play(tasks, rates, num_steps=40, seed=seed)
        late = played[5 * 16 :]
        predicted += sum(chance for _, chance, _ in late) / len(late) / 5
        happened += sum(differs for *_, differs in late) / len(late) / 5
    assert predicted == pytest.approx(happened, abs=0.08)


def test_of_families_whose_tasks_are_each_mastered_or_hopeless_the_few_others_are_found() -> None:
    tasks = tasks_of(**{f"family{n}x": 60 for n in range(8)})
    rng = random.Random(9)
    kinds = [rng.random() for _ in tasks]
    rates = {
        one.id: 1.0 if kind < 0.5 else 0.0 if kind < 0.9 else rng.random()
        for one, kind in zip(tasks, kinds, strict=True)
    }
    even = sum(1 - rate**8 - (1 - rate) ** 8 for rate in rates.values()) / len(rates)
    assert even < 0.1
    for seed in range(3):
        _, played = play(tasks, rates, num_steps=30, seed=seed)
        late = played[5 * 16 :]
        happened = sum(differs for *_, differs in late) / len(late)
        assert happened > 0.4
        assert sum(chance for _, chance, _ in late) / len(late) == pytest.approx(happened, abs=0.05)


def test_a_draw_depends_on_seed_number_and_record_alone() -> None:
    tasks = tasks_of(a=6, b=6)
    record = with_outcomes({}, [("a0", GroupOutcome(0, 4, 8)), ("b0", GroupOutcome(0, 8, 8))])
    restored = record_of(json.loads(json.dumps(record_as_json(record))))

    def names(known: SuccessRecord, seed: str) -> list[str]:
        learnable = LearnableTasks(tasks, known, step=1, num_members=8)
        chosen = [learnable.draw(seed, number, ()) for number in range(30)]
        return [one.id for one in chosen if one is not None]

    assert names(record, "1") == names(restored, "1")
    assert names(record, "1") != names(record, "2")


def exact(a: int, b: int, num: int) -> Fraction:
    """The chance that a group differs, in exact fractions."""
    same = Fraction(0)
    for one in (a, b):
        product = Fraction(1)
        for number in range(num):
            product *= Fraction(one + number, a + b + number)
        same += product
    return 1 - same


@pytest.mark.parametrize(("a", "b", "num"), [(1, 1, 8), (3, 5, 8), (20, 1, 16), (2, 9, 2)])
def test_the_chance_is_exact_in_fractions(a: int, b: int, num: int) -> None:
    assert Beta(a, b).chance_to_differ(num) == pytest.approx(float(exact(a, b, num)))
