"""Rewards as a user would write them, good and bad, for `module:function`."""

from turnwise.types import Trajectory
from turnwise.types.protocols import RewardDown

NOT_A_FUNCTION = 5


def shout(trajectory: Trajectory, *, mark: str = "!") -> float:
    return float(mark in trajectory.final_text)


async def later(trajectory: Trajectory) -> bool:
    return bool(trajectory.turns)


def too_much(trajectory: Trajectory) -> float:
    return 1.5


def not_a_number(trajectory: Trajectory) -> str:
    return "good"


def nan(trajectory: Trajectory) -> float:
    return float("nan")


def broken(trajectory: Trajectory) -> float:
    raise KeyError("price")


async def out_of_reach(trajectory: Trajectory) -> float:
    raise RewardDown("my service is down")


class Counting:
    """A reward with state, made once."""

    def __init__(self, *, step: float) -> None:
        self.step = step
        self.total = 0.0

    async def __call__(self, trajectory: Trajectory) -> float:
        self.total += self.step
        return self.total

    async def close(self) -> None:
        CLOSED.append(self.total)


CLOSED: list[float] = []
