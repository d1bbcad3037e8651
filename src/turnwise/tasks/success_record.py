"""What is known of each task's and each family's success: the outcomes of groups, and estimates from them.

The policy moves, so an outcome counts half as much every HALF_LIFE_STEPS steps. A task's prior is what is
known of its family, and a family's prior is what is known of all families (docs/design/learnability.md).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

HALF_LIFE_STEPS = 10.0
"""Steps after which an outcome counts half; a policy can change a task's success within that time."""
MAX_GROUPS_KEPT = 4
"""Latest groups of a task that are kept; with eight members, they outweigh every prior."""
MIN_STRENGTH, MAX_STRENGTH = 0.05, 32.0
"""Bounds on the number of episodes that a family's estimate is worth as the prior of a task."""
PRIOR_WEIGHT = 0.1
"""Groups that the population counts as in a family's mean. At 1, every failure of a family that never
succeeds would be a small surprise, and many of them would look like a fall."""
ONE_GROUP_OF_UNIFORM = (1.0, 1 / 2, 1 / 3)
"""The weight and the moments E[p] and E[p²] that all families together start from: one group, any p."""

Moments = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """How many members of a group succeeded, and the step that played it."""

    step: int
    num_successes: int
    num_episodes: int
    num_given: int = 0
    """Turns of its plan that the group started with. What it reached from there says how the task is played
    now, not whether the task succeeds."""


SuccessRecord = Mapping[str, tuple[GroupOutcome, ...]]
"""The latest outcomes of every task that was played, by the task's id, oldest first."""


def with_outcomes(record: SuccessRecord, outcomes: Iterable[tuple[str, GroupOutcome]]) -> SuccessRecord:
    """The record after these groups, given as pairs of a task's id and its outcome."""
    after = dict(record)
    for task_id, outcome in outcomes:
        after[task_id] = (*after.get(task_id, ()), outcome)[-MAX_GROUPS_KEPT:]
    return after


def record_as_json(record: SuccessRecord) -> dict[str, list[list[int]]]:
    return {
        task_id: [[one.step, one.num_successes, one.num_episodes, one.num_given] for one in outcomes]
        for task_id, outcomes in record.items()
    }


def record_of(saved: Mapping[str, Iterable[Iterable[int]]]) -> SuccessRecord:
    """The inverse of `record_as_json`."""
    return {task_id: tuple(GroupOutcome(*entry) for entry in entries) for task_id, entries in saved.items()}


@dataclass(frozen=True, slots=True)
class Beta:
    """A Beta distribution of a success rate p: what is known of it from these many successes and failures."""

    successes: float
    failures: float

    @property
    def mean(self) -> float:
        return self.successes / (self.successes + self.failures)

    def chance_to_differ(self, num_members: int) -> float:
        """The probability that neither all nor none of the members succeed: 1 − E[pⁿ] − E[(1 − p)ⁿ]."""
        a, b = self.successes, self.failures
        return (
            1
            - _rising(a, num_members) / _rising(a + b, num_members)
            - (_rising(b, num_members) / _rising(a + b, num_members))
        )

    def chance_of(self, num_successes: int, num_members: int) -> float:
        """The probability of exactly this number of successes: the beta-binomial distribution."""
        num_failures = num_members - num_successes
        ways = math.comb(num_members, num_successes)
        one_way = _rising(self.successes, num_successes) * _rising(self.failures, num_failures)
        return ways * one_way / _rising(self.successes + self.failures, num_members)


def _rising(start: float, count: int) -> float:
    """The product start · (start + 1) · … of `count` factors."""
    return math.prod(start + number for number in range(count))


class Estimates:
    """The success of tasks as far as it is known at a step; `note` adds outcomes of that step."""

    def __init__(
        self,
        families: Mapping[str, str],
        record: SuccessRecord,
        step: int,
        *,
        half_life: float = HALF_LIFE_STEPS,
        prior_weight: float = PRIOR_WEIGHT,
    ) -> None:
        """`families`: the family of every task, by the task's id; outcomes of other tasks are left out."""
        self._families = families
        self._step = step
        self._half_life = half_life
        self._prior_weight = prior_weight
        self._outcomes = {task_id: outcomes for task_id, outcomes in record.items() if task_id in families}
        self._sums = dict.fromkeys(dict.fromkeys(families.values()), (0.0, 0.0, 0.0))
        for task_id, outcomes in self._outcomes.items():
            self._add(task_id, outcomes[-1], 1.0)

    def of(self, task_id: str) -> Beta:
        """What is known of a task's success rate."""
        prior = self.prior(self._families[task_id])
        successes, failures = prior.successes, prior.failures
        for outcome in self._outcomes.get(task_id, ()):
            weight = self._weight(outcome)
            successes += weight * outcome.num_successes
            failures += weight * (outcome.num_episodes - outcome.num_successes)
        return Beta(successes, failures)

    def prior(self, family: str) -> Beta:
        """What is known of a task of this family that was never played."""
        own, population = self._sums[family], self._population()
        weight, mean, square = _added(own, population)
        strength = _strength(mean / weight, square / weight)
        mean = (own[1] + self._prior_weight * population[1]) / (own[0] + self._prior_weight)
        return Beta(mean * strength, (1 - mean) * strength)

    def note(self, task_id: str, outcome: GroupOutcome) -> None:
        before = self._outcomes.get(task_id, ())
        if before:
            self._add(task_id, before[-1], -1.0)
        self._outcomes[task_id] = (*before, outcome)
        self._add(task_id, outcome, 1.0)

    def _population(self) -> Moments:
        """The moments of all families, as one group; each counts in them as one group at most."""
        total = ONE_GROUP_OF_UNIFORM
        for sums in self._sums.values():
            total = _added(total, _of_one_group(sums) if sums[0] > 1 else sums)
        return _of_one_group(total)

    def _add(self, task_id: str, outcome: GroupOutcome, sign: float) -> None:
        """Add the latest group of a task to its family: a task that is played often counts once."""
        successes, num = outcome.num_successes, outcome.num_episodes
        if num < 2:
            return  # a single episode says nothing about how tasks differ
        weight, family = sign * self._weight(outcome), self._families[task_id]
        # unbiased estimates of p and p²
        group = (weight, weight * successes / num, weight * successes * (successes - 1) / (num * (num - 1)))
        self._sums[family] = _added(self._sums[family], group)

    def _weight(self, outcome: GroupOutcome) -> float:
        return float(0.5 ** ((self._step - outcome.step) / self._half_life))


def _added(one: Moments, other: Moments) -> Moments:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


def _of_one_group(sums: Moments) -> Moments:
    weight, mean, square = sums
    return 1.0, mean / weight, square / weight


def _strength(mean: float, square: float) -> float:
    """How many episodes the Beta distribution with E[p] = `mean` and E[p²] = `square` is worth, bounded."""
    spread, within = square - mean * mean, mean - square
    return MAX_STRENGTH if spread * MAX_STRENGTH <= within else max(within / spread, MIN_STRENGTH)
