"""A reproducible stream of random values for a key of names and numbers."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Stream:
    """Random values that are the same on every machine and Python version.

    Python promises that only `random()` keeps its sequence, and libm's log and cos differ in the last bit
    between platforms. So everything here uses only `random()`, additions and multiplications.
    """

    __slots__ = ("unit",)

    def __init__(self, *key: str | int) -> None:
        # Never used for secrets, and it must be reproducible.
        self.unit = random.Random("/".join(map(str, key))).random  # noqa: S311

    def below(self, count: int) -> int:
        """Return a whole number in [0, count)."""
        return int(self.unit() * count)

    def between(self, low: float, high: float) -> float:
        """Return a number in [low, high)."""
        return low + (high - low) * self.unit()

    def integer(self, low: int, high: int) -> int:
        """Return a whole number in [low, high]."""
        return low + self.below(high - low + 1)

    def pick(self, values: Sequence[T]) -> T:
        """Return one of the values."""
        return values[self.below(len(values))]

    def bell(self) -> float:
        """Return a roughly normal value, mean 0, variance 1: four uniforms have variance 4/12, hence √3."""
        unit = self.unit
        return (unit() + unit() + unit() + unit() - 2.0) * 1.7320508075688772

    def shuffled(self, values: Sequence[T]) -> list[T]:
        """Return the values in a random order (Fisher-Yates, since `shuffle` may change between versions)."""
        order = list(values)
        for last in range(len(order) - 1, 0, -1):
            other = self.below(last + 1)
            order[last], order[other] = order[other], order[last]
        return order
