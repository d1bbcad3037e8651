"""Sampling temperatures by family: raised while the members of its groups do not differ.

A family in which some tasks always succeed and others always fail teaches nothing, although it is neither
mastered nor hopeless. Its temperature rises until members differ (docs/design/learnability.md).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from turnwise.tasks.success_record import Estimates
from turnwise.types import Task

MOST = 1.5
"""The most that a temperature is raised to, as a multiple of the recipe's. At 1.4 a model of 1.5 billion
parameters sampled at 1.7 nats per token right after its warm start."""
PACE = 0.05
"""How far the temperature moves, as a share of itself, if the groups of a step differ from the goal by one
standard error: four groups without a difference raise it by a tenth."""
GOAL = 0.5
"""The share of a family's groups that should differ."""
OF_EQUAL_TASKS = 0.75
"""If the family is nearly mastered or hopeless, this share of what would differ at its success rate if all of
its tasks were equally hard. No temperature should make a mastered family fail in half of its episodes."""
MALFORMED = 0.1
"""The share of malformed turns from which on a group is too hot, whether its members differ or not."""


@dataclass(frozen=True, slots=True)
class SampledGroup:
    """One group of episodes, as far as its family's temperature depends on it."""

    family: str
    is_different: bool
    """Whether its members earned different rewards."""
    malformed: float
    """The share of malformed turns among those that the model wrote."""

    @property
    def is_hot_enough(self) -> bool:
        return self.is_different or self.malformed > MALFORMED


@dataclass(frozen=True, slots=True)
class FamilyTemperatures:
    """The temperature of each family, as a multiple of the recipe's; a round trip through JSON is exact."""

    factors: Mapping[str, float] = field(default_factory=dict)
    """By family, of the families that were played."""

    def factor(self, task: Task) -> float:
        return self.factors.get(task.family, 1.0)

    def after(
        self, groups: Iterable[SampledGroup], estimates: Estimates, num_members: int
    ) -> "FamilyTemperatures":
        """The temperatures after the groups of a step; `estimates`: of success, with those groups."""
        flags: dict[str, list[bool]] = {}
        for group in groups:
            flags.setdefault(group.family, []).append(group.is_hot_enough)
        factors = dict(self.factors)
        for family, own in flags.items():
            errors = standard_errors(own, estimates.prior(family).mean, num_members)
            factors[family] = min(max(factors.get(family, 1.0) * math.exp(PACE * errors), 1.0), MOST)
        return FamilyTemperatures(factors)


def standard_errors(are_hot_enough: list[bool], success: float, num_members: int) -> float:
    """How far too few of a family's groups differ for its success rate, in standard errors.

    If every member succeeded with this probability, 1 − pⁿ − (1 − p)ⁿ of the groups would differ.
    """
    goal = min(GOAL, OF_EQUAL_TASKS * (1 - success**num_members - (1 - success) ** num_members))
    if goal <= 0:
        return 0.0
    share = sum(are_hot_enough) / len(are_hot_enough)
    return (goal - share) * math.sqrt(len(are_hot_enough) / (goal * (1 - goal)))
