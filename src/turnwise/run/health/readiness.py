"""When a warm start has taught enough: the form is learned, and more would only cost variety."""

from collections.abc import Sequence
from dataclasses import dataclass

WELL_FORMED, SUCCEEDED = 0.7, 0.3
"""The form is taught if these shares of the episodes have no format error and succeed. Below them,
reinforcement would have to find the form by chance."""
LEAST_ENTROPY = 0.05
"""Nats per token. Below, sampling hardly varies: from .02 on, two thirds of the groups and more are flat."""
LEAST_GAP = 0.1
"""Of the share of tasks that some try solves over the share of tries that do. Below, groups hardly differ."""
FIRST_STEP = 6
RATIO = 2 / 3


@dataclass(frozen=True, slots=True)
class Probe:
    """What the model showed when it played a few training tasks, some tries each."""

    num_steps: int
    """Steps learned before it."""
    num_demonstrations: int
    """Demonstrations taken in these steps."""
    well_formed: float
    """Share of episodes without a format error; a share of turns would count what repeats itself."""
    success: float
    """Share of episodes that succeed: pass@1."""
    solvable: float
    """Share of tasks that at least one try solves: pass@k for k tries."""
    entropy: float
    """Nats per sampled token, as its negative log-prob estimates it."""

    def __str__(self) -> str:
        return (
            f"{self.well_formed:.0%} of episodes are well-formed, {self.success:.0%} succeed, "
            f"some try solves {self.solvable:.0%} of tasks, entropy {self.entropy:.3f}"
        )


def why_ready(probes: Sequence[Probe]) -> str:
    """Why the warm start ends after the last of these probes; empty if it goes on."""
    *before, last = probes
    if last.well_formed < WELL_FORMED or last.success < SUCCEEDED:
        return ""
    if last.entropy < LEAST_ENTROPY:
        return f"entropy is below {LEAST_ENTROPY:g} nats per token"
    if last.solvable - last.success < LEAST_GAP:
        return "tries of one task hardly differ any more"
    if last.solvable >= 1:
        return "some try solves every task"
    if any(probe.solvable >= last.solvable for probe in before):
        return "further demonstrations make no more tasks solvable"
    return ""


def probe_steps(num_steps: int) -> frozenset[int]:
    """The numbers of learned steps at which to probe: ever closer together towards the beginning."""
    steps = []
    step = round(num_steps * RATIO)
    while step >= FIRST_STEP:
        steps.append(step)
        step = round(step * RATIO)
    return frozenset(steps)
