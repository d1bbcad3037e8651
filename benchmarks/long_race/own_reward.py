"""The reward as turnwise takes it."""

from episodes import reward_of

from turnwise.types import Trajectory


def even_ids(trajectory: Trajectory) -> float:
    return reward_of([token for turn in trajectory.turns for token in turn.completion.token_ids])
