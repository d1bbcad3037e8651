"""The reward of benchmarks/long_steps.py as a reward part of turnwise."""

from episodes import reward_of

from turnwise.types import Trajectory


def even_ids(trajectory: Trajectory) -> float:
    return reward_of([token for turn in trajectory.turns for token in turn.completion.token_ids])
