"""Advantage estimators: from the rewards of groups to one advantage per member, or per turn of a member."""

import math
from collections.abc import Callable, Mapping, Sequence

Rewards_N_G = Sequence[Sequence[float]]
"""One list per group, one reward per member; groups may differ in size."""
Advantages_N_G = list[list[float]]
Rewards_N_G_K = Sequence[Sequence[Sequence[float]]]
"""One reward per turn of every member; members may differ in number of turns."""
Advantages_N_G_K = list[list[list[float]]]

FLAT = 1e-9
"""Relative tolerance below which rewards are equal: float noise divided by its own std would be ±1."""


def mean(rewards_N_G: Rewards_N_G) -> Advantages_N_G:
    """r − mean(group)."""
    return [_centred(rewards_G, _mean(rewards_G)) for rewards_G in rewards_N_G]


def grpo(rewards_N_G: Rewards_N_G) -> Advantages_N_G:
    """(r − mean(group)) / std(group), with n − 1 in the std."""
    return [_scaled(_centred(rewards_G, _mean(rewards_G)), _std(rewards_G)) for rewards_G in rewards_N_G]


def rloo(rewards_N_G: Rewards_N_G) -> Advantages_N_G:
    """r − mean(the other members of the group), which is n/(n − 1) times the advantage of `mean`."""
    return [_scaled(members, 1 - 1 / max(len(members), 2)) for members in mean(rewards_N_G)]


def maxrl(rewards_N_G: Rewards_N_G) -> Advantages_N_G:
    """(r − mean(group)) / mean(group), and 0 where no member succeeded (MaxRL, arXiv 2602.02710)."""
    for number, rewards_G in enumerate(rewards_N_G):
        if any(reward < 0 for reward in rewards_G):  # a negative mean would flip every sign
            raise ValueError(f"maxrl needs rewards of at least 0, but group {number} has {min(rewards_G)}")
    return [_scaled(_centred(rewards_G, _mean(rewards_G)), _mean(rewards_G)) for rewards_G in rewards_N_G]


def reinforce_plus_plus(rewards_N_G: Rewards_N_G) -> Advantages_N_G:
    """(r − mean(batch)) / std(batch): the baseline is the whole batch, and groups are ignored."""
    batch = [reward for rewards_G in rewards_N_G for reward in rewards_G]
    if _is_flat(batch):
        return [[0.0] * len(rewards_G) for rewards_G in rewards_N_G]
    centre, spread = _mean(batch), _std(batch)
    return [[(reward - centre) / spread for reward in rewards_G] for rewards_G in rewards_N_G]


def batch_std(rewards_N_G: Rewards_N_G) -> Advantages_N_G:
    """(r − mean(group)) / std of those differences over the batch: no group is scaled by its own std."""
    advantages_N_G = mean(rewards_N_G)
    spread = _std([advantage for members in advantages_N_G for advantage in members])
    return [_scaled(members, spread) for members in advantages_N_G]


def turn(rewards_N_G_K: Rewards_N_G_K, *, gamma: float = 1.0) -> Advantages_N_G_K:
    """Return-to-go of a turn minus its mean over the members of the group that reached that turn.

    Two members, rewards [0, 1] and [0]: returns [1, 1] and [0], baselines [.5, 1], advantages [.5, 0], [−.5].
    """
    advantages_N_G_K = []
    for rewards_G_K in rewards_N_G_K:
        returns_G_K = [returns_to_go(rewards_K, gamma=gamma) for rewards_K in rewards_G_K]
        num_turns = max(map(len, returns_G_K), default=0)
        reached_K_G = [[member[k] for member in returns_G_K if k < len(member)] for k in range(num_turns)]
        is_flat_K = [_is_flat(reached_G) for reached_G in reached_K_G]
        baseline_K = [_mean(reached_G) for reached_G in reached_K_G]
        advantages_N_G_K.append(
            [
                [0.0 if is_flat_K[k] else value - baseline_K[k] for k, value in enumerate(returns_K)]
                for returns_K in returns_G_K
            ]
        )
    return advantages_N_G_K


def returns_to_go(rewards_K: Sequence[float], *, gamma: float = 1.0) -> list[float]:
    """The return of every turn: its own reward plus later rewards, discounted by γ per turn."""
    returns_K: list[float] = []
    following = 0.0
    for reward in reversed(rewards_K):
        following = reward + gamma * following
        returns_K.append(following)
    return returns_K[::-1]


def has_signal(rewards_G: Sequence[float]) -> bool:
    """Whether a group has a nonzero advantage: not if it has one member or if all rewards are equal."""
    return not _is_flat(rewards_G)


ADVANTAGES: Mapping[str, Callable[[Rewards_N_G], Advantages_N_G]] = {
    "mean": mean,
    "grpo": grpo,
    "rloo": rloo,
    "maxrl": maxrl,
    "reinforce++": reinforce_plus_plus,
    "batch_std": batch_std,
}
"""Estimators over outcome rewards. `turn` needs a reward per turn and `gae.gae` a value per token."""


def _mean(values: Sequence[float]) -> float:
    # fsum is exact, so the result does not depend on the order of the members
    return math.fsum(values) / max(len(values), 1)


def _std(values: Sequence[float]) -> float:
    centre = _mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / max(len(values) - 1, 1))


def _is_flat(values: Sequence[float]) -> bool:
    # `<=` is false for NaN, so a NaN counts as not flat and shows up in the advantages instead of becoming 0
    return all(abs(value - values[0]) <= FLAT * max(abs(values[0]), 1.0) for value in values)


def _centred(values: Sequence[float], centre: float) -> list[float]:
    return [0.0] * len(values) if _is_flat(values) else [value - centre for value in values]


def _scaled(values: Sequence[float], divisor: float) -> list[float]:
    # zeros stay zeros whatever the divisor, so a flat group never divides 0 by 0
    return [value / divisor if value != 0 else 0.0 for value in values]
