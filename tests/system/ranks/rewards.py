"""Rewards that fail on one rank only."""

import os

from tests.run.own_rewards import even_ids
from turnwise.types import Trajectory
from turnwise.types.protocols import RewardDown


def down_in_the_second(trajectory: Trajectory) -> float:
    """A provider that one rank cannot reach."""
    if os.environ.get("RANK") == "1":
        raise RewardDown("the provider does not answer the second rank")
    return even_ids(trajectory)


def wrong_in_the_second(trajectory: Trajectory) -> float:
    """A user's mistake that occurs on one rank."""
    if os.environ.get("RANK") == "1":
        raise ValueError("this task has no such thing")
    return even_ids(trajectory)
