"""Arrange samples as a tree in which shared prefixes appear once.

Samples are sorted by their token ids, and each drops what it shares with the one before it. The row is then
the tree in depth-first order, and the descendants of a segment are one range.

    samples      packed row            segments  start end stop
    a b c d e    a b c d e f g h i     a b         0    2   9    seen in full by 2..8
    a b c f      0 1 2 3 4 3 2 3 4     c           2    3   6    seen in full by 3..5
    a b g h i    (its positions)       d e         3    5   5    a leaf; f and g h i are leaves too
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from turnwise.training.packing.samples import Sample

MIN_SHARED = 16
"""A shorter shared run is computed twice: a separate segment would cost more than its tokens."""


@dataclass(frozen=True, slots=True)
class TreeSegment:
    """A run of consecutive tokens, by index in the packed row."""

    start: int
    end: int
    stop: int
    """The end of its last descendant: all of end..stop sees all of start..end."""

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Tree:
    """The segments of a packed row, in the row's order."""

    segments: tuple[TreeSegment, ...]


class TreeBuilder:
    """Builds segments from sequences added in the order of their ids."""

    def __init__(self, min_shared: int) -> None:
        self.num_tokens = 0
        self._min_shared = min_shared
        self._path: list[tuple[int, int, int]] = []  # (first depth, last depth + 1, start) of open segments
        self._done: list[TreeSegment] = []

    def add(self, length: int, num_shared: int) -> int:
        """Append a sequence that shares `num_shared` tokens with the one before it.

        Returns the depth at which its new tokens begin.
        """
        depth = self._cut(num_shared)
        if depth < length:  # else it equals the one before it
            self._path.append((depth, length, self.num_tokens))
            self.num_tokens += length - depth
        return depth

    def _cut(self, num_shared: int) -> int:
        """Close the segments that the next sequence does not share; return the depth where it branches."""
        while self._path and self._path[-1][0] >= num_shared:
            self._close(self._path.pop())
        if not self._path:
            return 0
        first, last, start = self._path.pop()
        if num_shared == last:
            self._path.append((first, last, start))
        elif num_shared - first < self._min_shared:
            self._close((first, last, start))
            return first
        else:
            self._close((num_shared, last, start + num_shared - first))
            self._path.append((first, num_shared, start))
        return num_shared

    def _close(self, segment: tuple[int, int, int]) -> None:
        first, last, start = segment
        self._done.append(TreeSegment(start, start + last - first, self.num_tokens))

    def finish(self) -> tuple[TreeSegment, ...]:
        while self._path:
            self._close(self._path.pop())
        return tuple(sorted(self._done, key=lambda segment: segment.start))


def by_ids(samples: Sequence[Sample], num_carried: int) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return row numbers in the order of their ids, and each row's ids after the first `num_carried`."""
    tails = [sample.token_ids[num_carried:] for sample in samples]
    # the prefix common to all does not affect the order, and may be long
    num_alike = count_shared(min(tails, default=()), max(tails, default=()))
    return sorted(range(len(samples)), key=lambda number: (tails[number][num_alike:], number)), tails


def count_shared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Return the length of the common prefix of two sequences."""
    # slices are compared in one call, which is faster than token by token
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return bisect_left(range(1, shorter + 1), 1, key=lambda end: int(left[:end] != right[:end]))
