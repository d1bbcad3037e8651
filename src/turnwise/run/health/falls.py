"""Sequential tests of whether success fell: one for each family, with a stated rate of false alarms.

Every group is a bet that its share of successes is below what the record predicts. If success did not fall,
the bets win nothing on average, so much evidence is rare (docs/design/learnability.md has the theorem).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from turnwise.tasks.success_record import Estimates, GroupOutcome, SuccessRecord

GROUPS_PER_FALSE_ALARM = 50_000
"""Evidence that raises the alarm. Without a fall, it is reached at most once in this many groups on average,
however many families there are: a run of 60 steps of 40 groups raises a false alarm with at most 5 %."""
MARGIN = 0.05
"""A share this far below the predicted one is no fall yet; it allows for errors of the prediction."""
STAKES = (0.25, 0.5, 0.75)
"""The shares of its evidence that a test bets. A group without a success pays most where much was staked, and
a group of successes leaves 1 − stake."""
_NOTHING_YET = 2.0
"""Successes alone leave evidence of up to 1.5."""
EVERYTHING = "all tasks"
"""The name of the test over all families together."""


@dataclass(frozen=True, slots=True)
class FallTest:
    """The evidence that one family's success fell, as it is after the groups so far."""

    evidence: tuple[float, ...] = (0.0,) * len(STAKES)
    """For each stake, what all bets that began at some group are worth together."""
    since: int = 0
    """The step of the first group that counts: before it there was hardly any evidence."""
    num_groups: int = 0
    share: float = 0.0
    """The sum of the groups' shares of successes."""
    expected: float = 0.0
    """The sum of their predicted shares."""

    @property
    def strength(self) -> float:
        return fmean(self.evidence)

    def after(self, step: int, share: float, expected: float) -> "FallTest":
        """The test after a group; one that was expected to fail anyway says nothing."""
        null = expected - MARGIN
        if null <= 0:
            return self
        won = (null - share) / (1 - null)
        evidence = tuple(
            (before + 1) * (1 + stake * won) for before, stake in zip(self.evidence, STAKES, strict=True)
        )
        begun = self if self.strength > _NOTHING_YET else FallTest(since=step)
        return FallTest(
            evidence, begun.since, begun.num_groups + 1, begun.share + share, begun.expected + expected
        )


Kind = tuple[str, str]
"""A task's family and its difficulty."""

FallTests = Mapping[str, FallTest]
"""The test of every family, by its name."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What the tests found in one step."""

    tests: FallTests
    """The state after the step; a test that raised its alarm begins again."""
    evidence: float
    """The strongest evidence of a family, before tests began again."""
    detail: str
    """The families whose success fell, with figures; empty if none did."""
    since: int | None
    """The first step of the earliest of these falls; None if there is none."""


def watch(
    tests: FallTests,
    played: Iterable[tuple[str, GroupOutcome]],
    kinds: Mapping[str, Kind],
    record: SuccessRecord,
    step: int,
    *,
    is_repeated: bool = False,
) -> Watched:
    """Test the groups of a step, given with their tasks' ids, against the record as it was before.

    `is_repeated`: the tasks are the same every time. Then the first time is only recorded, as their order
    need not be random, and there is a test of all families together.
    """
    # tasks of one kind come in random order under every curriculum, so that one predicts the next
    names = {task_id: "\n".join(kind) for task_id, kind in kinds.items()}
    before = _from_the_beginning(record)
    estimates = Estimates(names, before, step, half_life=math.inf, prior_weight=1.0)
    after = dict(tests)
    for task_id, outcome in played:
        if outcome.num_given or outcome.num_episodes < 2:
            continue  # the estimates learn nothing of families from single episodes
        if task_id in before or not is_repeated:
            expected = estimates.of(task_id).mean
            share = outcome.num_successes / outcome.num_episodes
            family, _ = kinds[task_id]
            for name in {family, EVERYTHING} if is_repeated else {family}:
                after[name] = after.get(name, FallTest()).after(step, share, expected)
        estimates.note(task_id, outcome)
    fallen = [name for name, test in after.items() if test.strength >= GROUPS_PER_FALSE_ALARM]
    return Watched(
        tests={name: FallTest() if name in fallen else after[name] for name in sorted(after)},
        evidence=max((test.strength for test in after.values()), default=0.0),
        detail="; ".join(_described(name, after[name]) for name in sorted(fallen)),
        since=min((after[name].since for name in fallen), default=None),
    )


def _from_the_beginning(record: SuccessRecord) -> SuccessRecord:
    """The record with groups that started inside a plan as failures: they do because all failed before."""
    return {
        task_id: tuple(replace(one, num_successes=0) if one.num_given else one for one in outcomes)
        for task_id, outcomes in record.items()
    }


def _described(name: str, test: FallTest) -> str:
    groups = "group" if test.num_groups == 1 else "groups"
    return (
        f"{name or 'tasks without a family'}: success {test.share / test.num_groups:.2f} in "
        f"{test.num_groups} {groups} since step {test.since + 1}, {test.expected / test.num_groups:.2f} "
        "was expected"
    )


def falls_as_json(tests: FallTests) -> dict[str, Any]:
    return {
        name: [list(test.evidence), test.since, test.num_groups, test.share, test.expected]
        for name, test in tests.items()
    }


def falls_of(saved: Mapping[str, Iterable[Any]]) -> FallTests:
    """The inverse of `falls_as_json`."""
    return {name: FallTest(tuple(evidence), *rest) for name, (evidence, *rest) in saved.items()}
