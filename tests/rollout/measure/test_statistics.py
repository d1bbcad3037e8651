"""Rates, means and differences against known answers, and errors for missing data."""

import math
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise.rollout.measure.statistics import (
    Estimate,
    mean,
    mean_pass_at_k,
    mean_pass_hat_k,
    paired_difference,
    pass_at_k,
    pass_hat_k,
    quantile,
    student_quantile,
    success_rate,
    wilson,
)


@pytest.mark.parametrize(
    ("num_successes", "num_trials", "low", "high"),
    [
        (8, 10, 0.490162, 0.943318),
        (5, 10, 0.236593, 0.763407),
        (0, 10, 0.0, 0.277533),
        (10, 10, 0.722467, 1.0),
        (1, 1, 0.206549, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
    ],
)
def test_wilson_intervals_match_known_answers(
    num_successes: int, num_trials: int, low: float, high: float
) -> None:
    found = wilson(num_successes, num_trials)
    assert found.value == num_successes / num_trials
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("confidence", "z"), [(0.9, 1.644854), (0.95, 1.959964), (0.99, 2.575829)])
def test_the_bounds_are_the_rates_z_standard_errors_from_the_sample(confidence: float, z: float) -> None:
    found = wilson(8, 10, confidence=confidence)
    for end in (found.low, found.high):
        assert end is not None
        assert abs(end - 0.8) == pytest.approx(z * math.sqrt(end * (1 - end) / 10), rel=1e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_wilson_interval_contains_the_rate_and_stays_within_zero_and_one(counts: tuple[int, int]) -> None:
    found = wilson(*counts)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_samples_count_as_far_as_they_differ_within_a_task() -> None:
    plain = wilson(8, 10)
    assert success_rate([[True]] * 8 + [[False]] * 2) == plain, "one sample per task"
    repeated = success_rate([[True] * 4] * 8 + [[False] * 4] * 2)
    assert (repeated.value, repeated.low, repeated.high) == pytest.approx(
        (plain.value, plain.low, plain.high)
    )
    assert success_rate([[True] * 4] * 10) == wilson(10, 10)
    assert success_rate([[True, False]] * 10) == wilson(10, 20), "samples independent of their task all count"


def test_the_interval_over_tasks_has_its_nominal_coverage() -> None:
    draw, num_covered = random.Random(7), 0
    for _ in range(400):
        rates = [draw.betavariate(1, 1) for _ in range(40)]
        found = success_rate([[draw.random() < rate for _ in range(8)] for rate in rates])
        assert found.low is not None
        assert found.high is not None
        num_covered += found.low <= 0.5 <= found.high
    # 0.94 with this seed; plain Wilson over the 320 samples covers 0.66.
    assert 0.91 <= num_covered / 400 <= 0.99


def test_pass_at_k_and_pass_hat_k_match_known_answers() -> None:
    assert pass_at_k(10, 3, 5) == pytest.approx(1 - 21 / 252)
    assert pass_at_k(4, 1, 1) == 0.25
    assert pass_at_k(4, 1, 4) == 1
    assert pass_at_k(4, 0, 4) == 0
    assert pass_hat_k(10, 3, 2) == pytest.approx(3 / 45)
    assert pass_hat_k(4, 3, 4) == 0
    assert pass_hat_k(4, 4, 4) == 1
    assert pass_hat_k(4, 1, 1) == 0.25
    outcomes = [[True, False], [False, False], [True, True]]
    assert mean_pass_at_k(outcomes, 2) == pytest.approx(2 / 3)
    assert mean_pass_hat_k(outcomes, 2) == pytest.approx(1 / 3)
    assert mean_pass_at_k(outcomes, 1) == mean_pass_hat_k(outcomes, 1) == 0.5


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
@settings(max_examples=50, deadline=None)
def test_pass_at_k_is_the_average_over_all_choices_of_k(outcomes: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(outcomes)))
    chosen = list(combinations(outcomes, k))
    assert pass_at_k(len(outcomes), sum(outcomes), k) == pytest.approx(sum(map(any, chosen)) / len(chosen))
    assert pass_hat_k(len(outcomes), sum(outcomes), k) == pytest.approx(sum(map(all, chosen)) / len(chosen))


@pytest.mark.parametrize(
    ("num_freedom", "confidence", "expected"),
    [
        (1, 0.95, 12.70620),
        (2, 0.95, 4.302653),
        (10, 0.95, 2.228139),
        (100, 0.95, 1.983972),
        (1, 0.99, 63.65674),
        (30, 0.99, 2.749996),
        (5, 0.9, 2.015048),
        (10**6, 0.95, 1.959966),
    ],
)
def test_student_quantiles_match_known_answers(num_freedom: int, confidence: float, expected: float) -> None:
    assert student_quantile(num_freedom, confidence) == pytest.approx(expected, rel=2e-6)


def test_a_mean_and_its_interval_match_a_known_answer() -> None:
    found = mean([1, 2, 3, 4, 5])
    assert found.value == 3
    assert (found.low, found.high) == pytest.approx((3 - 1.963243, 3 + 1.963243), abs=1e-6)
    assert mean([7]) == Estimate(7, None, None)
    assert mean([2, 2, 2]) == Estimate(2, 2, 2)


def test_quantiles_interpolate_between_neighbours() -> None:
    assert [quantile([1, 2, 3, 4], share) for share in (0, 0.5, 1)] == [1, 2.5, 4]
    assert quantile([5], 0.3) == 5


def test_a_paired_difference_is_after_minus_before_over_the_same_tasks() -> None:
    before = {"a": 0.0, "b": 0.5, "c": 1.0}
    constant = paired_difference(before, {task: rate + 0.25 for task, rate in before.items()})
    assert constant == Estimate(0.25, 0.25, 0.25)
    # Order of the mapping does not matter, only the ids.
    after = {"c": 0.5, "b": 0.5, "a": 1.0}
    assert paired_difference(before, after).value == pytest.approx(0.5 / 3)


def test_the_bootstrap_agrees_with_the_normal_interval_on_normal_data() -> None:
    draw = random.Random(1)
    differences = {str(number): draw.gauss(0.1, 0.5) for number in range(400)}
    found = paired_difference(dict.fromkeys(differences, 0.0), differences, num_resamples=4_000)
    exact = mean(list(differences.values()))
    assert found.value == pytest.approx(exact.value)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.005)


def test_pairing_detects_a_difference_that_two_separate_rates_do_not() -> None:
    before = {str(number): float(number % 2) for number in range(100)}
    after = {task: min(1.0, rate + (0.2 if int(task) % 4 else 0.0)) for task, rate in before.items()}
    assert (paired_difference(before, after).low or 0) > 0
    after = {task: math.sin(int(task)) for task in before}
    first, again, other = (paired_difference(before, after, seed=seed) for seed in (3, 3, 4))
    assert first == again != other, "the interval depends on the seed"
    assert paired_difference({"a": 0.0}, {"a": 1.0}) == Estimate(1.0, None, None), "one task has no interval"


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: wilson(0, 0), "not a rate"),
        (lambda: wilson(3, 2), "not a rate"),
        (lambda: wilson(1, 2, confidence=1.0), "confidence"),
        (lambda: success_rate([]), "must be a task"),
        (lambda: success_rate([[True], []]), "at least one sample"),
        (lambda: mean_pass_at_k([], 1), "must be a task"),
        (lambda: mean_pass_hat_k([[]], 1), "at least one sample"),
        (lambda: pass_at_k(2, 1, 3), "k must be"),
        (lambda: pass_at_k(2, 1, 0), "k must be"),
        (lambda: pass_hat_k(2, 3, 1), "k must be"),
        (lambda: mean([]), "no values"),
        (lambda: quantile([], 0.5), "no values"),
        (lambda: student_quantile(0, 0.95), "degrees of freedom"),
        (lambda: paired_difference({}, {}), "same tasks"),
        (lambda: paired_difference({"a": 1.0}, {"b": 1.0}), "'a', 'b'"),
        (lambda: paired_difference({"a": 1.0}, {"a": 1.0}, num_resamples=1), "num_resamples"),
    ],
)
def test_missing_data_is_an_error_that_names_it(call: object, word: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=word):
        call()
