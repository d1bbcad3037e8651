"""Ranks: the interface by which the processes of a run exchange values.

All ranks run the same loop from the same seed and meet at the same exchanges. A single process is a rank too;
its exchanges return at once.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from turnwise.system.threads import run_detached

if TYPE_CHECKING:
    from torch import Tensor

Value = TypeVar("Value")

Channel = Literal["steps", "rollouts"]
"""Exchanges of one channel have the same order on all ranks; an asynchronous run uses both at once."""


class RankFailed(Exception):
    """Another process of the run failed, so this one cannot continue."""


class Ranks(Protocol):
    """The rank of this process, and its connection to the other ranks."""

    @property
    def number(self) -> int:
        """The rank, from 0."""
        ...

    @property
    def count(self) -> int: ...

    def exchange(self, value: Value, channel: Channel = "steps") -> list[Value]:
        """The values of all ranks, in the order of their numbers; returns when every rank has called it."""
        ...

    def add_up(self, tensors: "Sequence[Tensor]") -> None:
        """Replace every tensor by its sum over all ranks, in place, with the same bits on all ranks."""
        ...

    def numbers(self, name: str) -> Iterator[int]:
        """An endless counter from 0, shared under this name: every number goes to one rank only."""
        ...


class Alone:
    """The only process of a run."""

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
"""For code that always runs in one process."""


def is_first(ranks: Ranks) -> bool:
    """Whether this is the rank that writes files and prints."""
    return ranks.number == 0


def first_rank_value(ranks: Ranks, value: Value) -> Value:
    """The value of the first rank, for values that are read from a disk or a clock and must agree."""
    return ranks.exchange(value)[0]


def first_reason(ranks: Ranks, why: str) -> str:
    """The first reason that any rank has; empty if none has one."""
    return next((reason for reason in ranks.exchange(why) if reason), "")


async def exchange_async(ranks: Ranks, value: Value, channel: Channel) -> list[Value]:
    """`exchange` from a coroutine: other coroutines continue while this one waits for the slowest rank."""
    if ranks.count == 1:
        return [value]
    return await run_detached(ranks.exchange, value, channel)
