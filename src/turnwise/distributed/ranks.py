"""Takes what each process has, gives every one of them what all have: the only place where they speak.

All ranks run the same loop from the same seed and meet at the same exchanges. One process alone is a rank
too: it exchanges with nobody, and that costs nothing.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from turnwise.beside import run_beside

if TYPE_CHECKING:
    from torch import Tensor

Value = TypeVar("Value")

Channel = Literal["steps", "rollouts"]
"""Exchanges of one channel are in the same order on all ranks; an asynchronous run has both under way."""


class RankFailed(Exception):
    """Another process of the run failed; this one has nothing to go on with."""


class Ranks(Protocol):
    """This process's place among those that train one policy, and its way to the others."""

    @property
    def number(self) -> int:
        """From 0."""
        ...

    @property
    def count(self) -> int: ...

    def exchange(self, value: Value, channel: Channel = "steps") -> list[Value]:
        """What every rank gave, in the order of their numbers; returns once all have given theirs."""
        ...

    def add_up(self, tensors: "Sequence[Tensor]") -> None:
        """Each becomes the sum of all ranks' in place, the same bits everywhere."""
        ...

    def numbers(self, name: str) -> Iterator[int]:
        """From 0 without end, each to one rank only, in the order they are asked for under this name."""
        ...


class Alone:
    """The one process there is."""

    @property
    def number(self) -> int:
        return 0

    @property
    def count(self) -> int:
        return 1

    def exchange(self, value: Value, channel: Channel = "steps") -> list[Value]:
        return [value]

    def add_up(self, tensors: "Sequence[Tensor]") -> None: ...

    def numbers(self, name: str) -> Iterator[int]:
        return itertools.count()


ALONE = Alone()
"""For what is never spread over processes."""


def is_first(ranks: Ranks) -> bool:
    """Whether this is the rank that writes and speaks for all."""
    return ranks.number == 0


def of_first(ranks: Ranks, value: Value) -> Value:
    """The first rank's: what must be the same everywhere and is read from a disk or a clock."""
    return ranks.exchange(value)[0]


async def exchanged(ranks: Ranks, value: Value, channel: Channel) -> list[Value]:
    """`exchange` from a coroutine: others go on while the slowest rank is waited for."""
    if ranks.count == 1:
        return [value]
    return await run_beside(ranks.exchange, value, channel)
