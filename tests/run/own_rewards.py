"""A reward that a random model earns unevenly: something to learn from without knowing anything."""

from turnwise.types import Trajectory


def even_ids(trajectory: Trajectory) -> float:
    """The share of even token ids."""
    ids = [token for turn in trajectory.turns for token in turn.completion.token_ids]
    return sum(token % 2 == 0 for token in ids) / max(len(ids), 1)
