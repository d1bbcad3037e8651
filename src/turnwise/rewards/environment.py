"""Rewards `environment.NAME`: the parts that the environment's `score()` returns."""

from turnwise.types import Trajectory

PREFIX = "environment."


def is_environment_part(name: str) -> bool:
    return name.startswith(PREFIX) and len(name) > len(PREFIX)


async def environment_part(trajectory: Trajectory, name: str) -> float:
    """Return a part of the environment's score; RuntimeError if the environment did not score it."""
    if trajectory.stop.is_forfeit:  # it was not asked for a score
        return 0.0
    part = name.removeprefix(PREFIX)
    if part not in trajectory.scores:
        known = ", ".join(map(repr, trajectory.scores)) or "nothing"
        raise RuntimeError(
            f"reward {name!r}: score() of task {trajectory.task.id!r} has no part {part!r}, only {known}"
        )
    return trajectory.scores[part]
