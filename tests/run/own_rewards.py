"""A reward that a random model earns unevenly: something to learn from without knowing anything."""

import logging

from turnwise.types import Trajectory
from turnwise.types.protocols import RewardDown


def even_ids(trajectory: Trajectory) -> float:
    """The share of even token ids."""
    ids = [token for turn in trajectory.turns for token in turn.completion.token_ids]
    return sum(token % 2 == 0 for token in ids) / max(len(ids), 1)


def unreachable(trajectory: Trajectory) -> float:
    """A provider that is down, and says so in colour."""
    logging.getLogger("turnwise.tests").warning("the provider said \x1b[31mno")
    raise RewardDown("the provider does not answer")


def broken(trajectory: Trajectory) -> float:
    """A mistake in the user's own code."""
    return {"even": even_ids(trajectory)}["odd"]
