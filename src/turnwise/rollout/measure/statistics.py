"""Statistics of an evaluation: success rates, means and paired differences with confidence intervals."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its confidence interval; None where there are too few values for an interval."""

    value: float
    low: float | None
    high: float | None


def wilson(num_successes: float, num_trials: float, *, confidence: float = CONFIDENCE) -> Estimate:
    """A success rate with its Wilson interval, which stays within [0, 1] and is valid for 0 of n too."""
    if not 0 <= num_successes <= num_trials or num_trials <= 0:
        raise ValueError(f"{num_successes} successes of {num_trials} trials is not a rate")
    z = _normal_quantile(confidence)
    rate = num_successes / num_trials
    scale = 1 + z * z / num_trials
    centre = (rate + z * z / (2 * num_trials)) / scale
    half_width = z / scale * math.sqrt(rate * (1 - rate) / num_trials + z * z / (4 * num_trials**2))
    # At 0 of n and n of n the bound is exact; rounding would put it past the rate.
    low = 0.0 if num_successes == 0 else max(0.0, centre - half_width)
    high = 1.0 if num_successes == num_trials else min(1.0, centre + half_width)
    return Estimate(rate, low, high)


def success_rate(outcomes: Sequence[Sequence[bool]], *, confidence: float = CONFIDENCE) -> Estimate:
    """The rate over all samples (`outcomes[task][sample]`), as an estimate for tasks of this kind.

    Samples of one task are correlated, so k samples carry less information than k tasks. The Wilson interval
    uses the effective sample size: the number of independent samples with the same variance, between the
    number of tasks and the number of samples.
    """
    _check_tasks(outcomes)
    num_tasks, num_samples = len(outcomes), sum(map(len, outcomes))
    rate = sum(map(sum, outcomes)) / num_samples
    variance = sum((sum(task) - len(task) * rate) ** 2 for task in outcomes) / num_samples**2
    num_equal = rate * (1 - rate) / variance if variance else num_samples if 0 < rate < 1 else num_tasks
    num_effective = min(max(num_equal, num_tasks), num_samples)
    return wilson(rate * num_effective, num_effective, confidence=confidence)


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """Unbiased estimate of the chance that at least one of k samples succeeds: 1 - C(n-c, k) / C(n, k)."""
    _check_k(num_samples, num_correct, k)
    return 1 - math.comb(num_samples - num_correct, k) / math.comb(num_samples, k)


def pass_hat_k(num_samples: int, num_correct: int, k: int) -> float:
    """pass^k: unbiased estimate of the chance that all of k samples succeed: C(c, k) / C(n, k)."""
    _check_k(num_samples, num_correct, k)
    return math.comb(num_correct, k) / math.comb(num_samples, k)


def mean_pass_at_k(outcomes: Sequence[Sequence[bool]], k: int) -> float:
    """The mean of pass@k over tasks."""
    _check_tasks(outcomes)
    return fmean(pass_at_k(len(task), sum(task), k) for task in outcomes)


def mean_pass_hat_k(outcomes: Sequence[Sequence[bool]], k: int) -> float:
    """The mean of pass^k over tasks."""
    _check_tasks(outcomes)
    return fmean(pass_hat_k(len(task), sum(task), k) for task in outcomes)


def mean(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Estimate:
    """A mean with its Student interval; a single value has no interval."""
    if not values:
        raise ValueError("the mean of no values")
    value = fmean(values)
    if len(values) == 1:
        return Estimate(value, None, None)
    half_width = student_quantile(len(values) - 1, confidence) * stdev(values) / math.sqrt(len(values))
    return Estimate(value, value - half_width, value + half_width)


def paired_difference(
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    seed: int = 0,
    num_resamples: int = 10_000,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The mean of after - before over the same tasks, with a percentile bootstrap interval.

    The keys are task ids and the values are means per task. The bootstrap resamples tasks, not samples: the
    interval is about other tasks of this kind.
    """
    if not before or before.keys() != after.keys():
        only = sorted(before.keys() ^ after.keys())[:3]
        raise ValueError(f"a paired difference needs the same tasks on both sides; not on both: {only}")
    if num_resamples < 100:
        raise ValueError(f"num_resamples must be 100 or more, not {num_resamples}")
    tail = _tail(confidence)
    differences = [after[task] - before[task] for task in sorted(before)]
    value = fmean(differences)
    if len(differences) == 1:
        return Estimate(value, None, None)
    source = random.Random(seed)  # noqa: S311 - a seeded interval is reproducible; nothing secret
    size = len(differences)
    means = sorted(math.fsum(source.choices(differences, k=size)) / size for _ in range(num_resamples))
    return Estimate(value, quantile(means, tail), quantile(means, 1 - tail))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of sorted values, interpolated linearly between neighbours."""
    if not ordered:
        raise ValueError("the quantile of no values")
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def student_quantile(num_freedom: int, confidence: float) -> float:
    """Half the width of a two-sided Student interval in standard errors, for these degrees of freedom."""
    if num_freedom < 1:
        raise ValueError(f"degrees of freedom must be 1 or more, not {num_freedom}")
    _tail(confidence)
    if num_freedom > 1_000:  # within 0.2% of the normal distribution, and the series below gets long
        return _normal_quantile(confidence)
    low, high = 0.0, 1.0
    while _student_within(high, num_freedom) < confidence:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_within(middle, num_freedom) < confidence else (low, middle)
    return (low + high) / 2


def _student_within(t: float, num_freedom: int) -> float:
    """P(|T| < t), by the finite series of Abramowitz & Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(num_freedom))
    cosine = math.cos(angle)
    is_odd = num_freedom % 2 == 1
    term = cosine if is_odd else 1.0
    total = term if num_freedom > 1 else 0.0
    for step in range(3 if is_odd else 2, num_freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    return 2 / math.pi * (angle + math.sin(angle) * total) if is_odd else math.sin(angle) * total


def _normal_quantile(confidence: float) -> float:
    return NormalDist().inv_cdf(1 - _tail(confidence))


def _tail(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence}")
    return (1 - confidence) / 2


def _check_k(num_samples: int, num_correct: int, k: int) -> None:
    if not 1 <= k <= num_samples or not 0 <= num_correct <= num_samples:
        raise ValueError(
            f"k must be from 1 to the number of samples, not {k} with {num_correct} correct of {num_samples}"
        )


def _check_tasks(outcomes: Sequence[Sequence[bool]]) -> None:
    if not outcomes or not all(outcomes):
        raise ValueError("there must be a task, and every task needs at least one sample")
