"""Whether the episodes of one family are lost to infrastructure more often than those of the others."""

import math
from collections.abc import Mapping

Attempts = Mapping[str, tuple[int, int]]
"""By family: how many episodes were started, and how many of them were lost."""

CHANCE = "episodes/lost_chance"
SHARE = "episodes/lost_share"
MAX_CHANCE = 0.001
"""Losses that chance would spread so unevenly in fewer cases are an alarm."""


def loss_figures(attempts: Attempts) -> dict[str, float]:
    """The share of lost episodes, over all and by family, and how probable it is that only chance differs.

    A machine loses episodes of all families alike; a policy that provokes faults loses those that it fails.
    """
    num_started, num_lost = (sum(counts[place] for counts in attempts.values()) for place in (0, 1))
    if not num_started:
        return {}
    shares = {f"lost/{name}": lost / started for name, (started, lost) in attempts.items() if name and lost}
    return {SHARE: num_lost / num_started, CHANCE: _chance(attempts), **dict(sorted(shares.items()))}


def most_lost(attempts: Attempts) -> str:
    """Name the family that stands out most, with its counts; empty if nothing was lost."""
    if not any(lost for _, lost in attempts.values()):
        return ""
    name = min(attempts, key=lambda family: _tail(attempts, family))
    started, lost = attempts[name]
    return f"family {name or '-'}: {lost} of {started} were lost"


def _chance(attempts: Attempts) -> float:
    """The smallest probability of a family, times their number: at most this often by chance."""
    if len(attempts) < 2:
        return 1.0
    return min(1.0, len(attempts) * min(_tail(attempts, family) for family in attempts))


def _tail(attempts: Attempts, family: str) -> float:
    """Fisher's exact test: P(at least this many of the lost ones are of the family)."""
    own_started, own_lost = attempts[family]
    num_started, num_lost = (sum(counts[place] for counts in attempts.values()) for place in (0, 1))
    ways = sum(
        math.comb(own_started, lost) * math.comb(num_started - own_started, num_lost - lost)
        for lost in range(own_lost, min(own_started, num_lost) + 1)
    )
    return ways / math.comb(num_started, num_lost)
