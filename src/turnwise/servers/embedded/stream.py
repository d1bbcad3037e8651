"""A reproducible stream of random values for a key of names and numbers."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Stream:
    """Draws that are the same on every machine and Python version.

    Python promises that only `random()` keeps its sequence, and libm's log and cos differ in the last bit
    between platforms; so everything here is `random()`, additions and multiplications.
    """

    __slots__ = ("unit",)

    def __init__(self, *key: str | int) -> None:
        # Not for secrets: reproducibility is the point.
        self.unit = random.Random("/".join(map(str, key))).random  # noqa: S311

    def below(self, count: int) -> int:
        """A whole number in [0, count)."""
        return int(self.unit() * count)

    def between(self, low: float, high: float) -> float:
        """A number in [low, high)."""
        return low + (high - low) * self.unit()

    def whole(self, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        return low + self.below(high - low + 1)

    def pick(self, values: Sequence[T]) -> T:
        """One of the values."""
        return values[self.below(len(values))]

    def bell(self) -> float:
        """About normal, mean 0 and variance 1: four uniforms have variance 4/12, hence the root of 3."""
        unit = self.unit
        return (unit() + unit() + unit() + unit() - 2.0) * 1.7320508075688772

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """The values in a random order (Fisher-Yates, since `shuffle` may change between versions)."""
        order = list(values)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order
