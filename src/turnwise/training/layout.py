"""Takes samples, gives what the model runs on: one packed tree of their tokens, or plain padded rows.

The packed row holds every prefix that samples share once. Samples in the order of their ids, each without
what it shares with the one before it, are the tree depth first: whatever follows a segment is one range.

    samples      packed row            segments  start end stop
    a b c d e    a b c d e f g h i     a b         0    2   9    seen in full by 2..8
    a b c f      0 1 2 3 4 3 2 3 4     c           2    3   6    seen in full by 3..5
    a b g h i    (its positions)       d e         3    5   5    a leaf; f and g h i are leaves too

Where all micro-batches of a pass begin alike, that prefix is run once for all of them: a row then holds what
comes after it (`num_carried` tokens on), at the positions it has in its sample.
"""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from turnwise.devices import handed
from turnwise.training.head import Choices, choices
from turnwise.training.samples import Sample

MIN_SHARED = 16
"""A shorter run of shared tokens is computed twice: a segment costs more than its tokens do."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Tokens that follow each other, by place in the packed row."""

    start: int
    end: int
    stop: int
    """Where the last of its descendants ends: all of end..stop sees all of start..end."""

    @property
    def length(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Tree:
    """The segments of a packed row, in the row's order."""

    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A micro-batch. R is 1 for the packed row, the number of samples for padded ones; B counts samples.

    T counts the model's own tokens alone, to the left. Padding stands on the right: nothing causal sees it,
    so no mask is needed.
    """

    token_ids_RN: Tensor
    position_ids_RN: Tensor
    tree: Tree | None
    """None for padded rows."""
    mask_BT: Tensor
    """True where sample b has a token t."""
    end_B: Tensor
    """Flat index of the position each sample ends at."""
    asked: Choices
    """Own tokens row by row, by the positions whose output predicts them: flat, into R·N."""

    @property
    def num_tokens(self) -> int:
        """What the model computes, padding too."""
        return self.token_ids_RN.numel()

    def to(self, device: torch.device) -> "Layout":
        return Layout(
            handed(self.token_ids_RN, device),
            handed(self.position_ids_RN, device),
            self.tree,
            handed(self.mask_BT, device),
            handed(self.end_B, device),
            self.asked.to(device),
        )


def padded(samples: Sequence[Sample]) -> Layout:
    """One row a sample, as long as the longest."""
    _check(samples)
    longest = max(len(sample.token_ids) for sample in samples)
    rows = [(*sample.token_ids, *(0,) * (longest - len(sample.token_ids))) for sample in samples]
    token_ids_RN = torch.tensor(rows)
    position_ids_RN = torch.arange(longest).expand(len(rows), -1)
    places = [
        range(number * longest, number * longest + len(sample.token_ids))
        for number, sample in enumerate(samples)
    ]
    return _layout(samples, token_ids_RN, position_ids_RN, None, places)


def shared(samples: Sequence[Sample], *, min_shared: int = MIN_SHARED, num_carried: int = 0) -> Layout:
    """All samples in one row, what they share once; without the tokens that a carried prefix stands for."""
    _check(samples)
    order, tails = _by_ids(samples, num_carried)
    builder = _TreeBuilder(min_shared)
    places: list[Sequence[int]] = [()] * len(samples)
    before: tuple[int, ...] = ()
    place_N = [-1] * num_carried  # outside the row, and never asked for
    token_ids: list[int] = []
    position_ids: list[int] = []
    for number in order:
        ids = tails[number]
        depth = builder.add(len(ids), _num_shared(before, ids))
        fresh = range(builder.num_tokens - (len(ids) - depth), builder.num_tokens)
        place_N = [*place_N[: num_carried + depth], *fresh]
        places[number] = place_N
        token_ids += ids[depth:]
        position_ids += range(num_carried + depth, num_carried + len(ids))
        before = ids
    tree = Tree(builder.finish())
    return _layout(samples, torch.tensor([token_ids]), torch.tensor([position_ids]), tree, places)


def alone(token_ids: Sequence[int]) -> Layout:
    """A prefix by itself: it is run for its keys and values, no output of it is asked for."""
    size, none_BT = len(token_ids), torch.empty((0, 0), dtype=torch.long)
    tree = Tree((Segment(0, size, size),))
    ids_RN, position_ids_RN = torch.tensor([token_ids]), torch.arange(size)[None]
    end_B = none_BT.flatten()
    asked = choices(end_B, end_B)
    return Layout(ids_RN, position_ids_RN, tree, none_BT.bool(), end_B, asked)


def common_prefix(samples: Sequence[Sample]) -> tuple[int, ...]:
    """What all begin with, short of any position whose output is needed: before an own token, at an end."""
    ids = [sample.token_ids for sample in samples]
    # what the first and the last in order share, all between them do
    end = _num_shared(min(ids), max(ids))
    for sample in samples:
        first_own = sample.loss_mask.index(1) if sample.num_own_tokens else len(sample.token_ids)
        end = min(end, max(first_own - 1, 0))
    return ids[0][:end]


class _TreeBuilder:
    """Takes sequences in the order of their ids, by length and what each shares with the one before it."""

    def __init__(self, min_shared: int) -> None:
        self.num_tokens = 0
        self._min_shared = min_shared
        self._path: list[tuple[int, int, int]] = []  # (first depth, last depth + 1, start) of open segments
        self._done: list[Segment] = []

    def add(self, length: int, num_shared: int) -> int:
        """Append a sequence; gives the depth at which its fresh tokens begin."""
        depth = self._cut(num_shared)
        if depth < length:  # else it is the same as the one before it
            self._path.append((depth, length, self.num_tokens))
            self.num_tokens += length - depth
        return depth

    def _cut(self, num_shared: int) -> int:
        """Close what the next sequence does not go through; gives where it leaves the rest."""
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
        self._done.append(Segment(start, start + last - first, self.num_tokens))

    def finish(self) -> tuple[Segment, ...]:
        while self._path:
            self._close(self._path.pop())
        return tuple(sorted(self._done, key=lambda segment: segment.start))


def microbatches(
    samples: Sequence[Sample],
    tokens: int,
    *,
    is_shared: bool,
    min_shared: int = MIN_SHARED,
    num_carried: int = 0,
    num_ranks: int = 1,
) -> list[list[int]]:
    """Rows by number, in parts of at most `tokens` computed tokens; a sample larger than that stands alone.

    Samples that share a prefix stand together (`is_shared`), or samples of like length. There are as few
    parts as that allows, or as many more as give each rank one, and they are of like size: the largest
    decides the memory. A carried prefix counts in each part, though it is computed once: beside each part it
    is in memory.
    """
    if tokens < 1:
        raise ValueError(f"tokens must be at least 1, not {tokens}")
    tokens = max(tokens - num_carried, 1)
    order, starts_of = _splitting(
        samples, is_shared=is_shared, min_shared=min_shared, num_carried=num_carried
    )
    num_parts = len(starts_of(tokens))
    wanted = -(-num_parts // num_ranks) * num_ranks
    least = tokens
    if not num_parts == num_ranks == 1:
        least = bisect_left(range(1, tokens + 1), -wanted, key=lambda budget: -len(starts_of(budget))) + 1
    starts = [*starts_of(least), len(order)]
    return [order[start:stop] for start, stop in itertools.pairwise(starts)]


def are_one(samples: Sequence[Sample], tokens: int, *, is_shared: bool) -> bool:
    """Whether they fit into one part."""
    _, starts_of = _splitting(samples, is_shared=is_shared)
    return len(starts_of(tokens)) == 1


def _splitting(
    samples: Sequence[Sample], *, is_shared: bool, min_shared: int = MIN_SHARED, num_carried: int = 0
) -> tuple[list[int], Callable[[int], list[int]]]:
    """The order that parts are cut out of, and where they begin in it if they have so many tokens at most."""
    if not is_shared:
        lengths = [len(sample.token_ids) - num_carried for sample in samples]
        order = sorted(range(len(samples)), key=lambda number: (lengths[number], number))
        return order, partial(_starts, [lengths[number] for number in order])
    order, tails = _by_ids(samples, num_carried)
    ordered = [tails[number] for number in order]
    common = [0, *(_num_shared(before, ids) for before, ids in itertools.pairwise(ordered))]
    return order, partial(_shared_starts, [len(ids) for ids in ordered], common, min_shared)


def _starts(lengths: Sequence[int], budget: int) -> list[int]:
    """Where padded parts begin, the lengths rising."""
    starts: list[int] = []
    for number, length in enumerate(lengths):
        if not starts or (number - starts[-1] + 1) * length > budget:
            starts.append(number)
    return starts


def _shared_starts(lengths: Sequence[int], common: Sequence[int], min_shared: int, budget: int) -> list[int]:
    """Where packed parts begin; `common` is what each sample shares with the one before it."""
    starts: list[int] = []
    builder = _TreeBuilder(min_shared)
    for number, length in enumerate(lengths):
        # what it takes is known once it is placed: past the budget it begins a part of its own
        builder.add(length, common[number])
        if not starts or builder.num_tokens > budget:
            builder = _TreeBuilder(min_shared)
            builder.add(length, 0)
            starts.append(number)
    return starts


def _by_ids(samples: Sequence[Sample], num_carried: int) -> tuple[list[int], list[tuple[int, ...]]]:
    """Rows in the order of their ids, and the ids of each after those that all of them share."""
    tails = [sample.token_ids[num_carried:] for sample in samples]
    # what all begin with is of no use in comparing them, and may be long
    num_alike = _num_shared(min(tails, default=()), max(tails, default=()))
    return sorted(range(len(samples)), key=lambda number: (tails[number][num_alike:], number)), tails


def _num_shared(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    # compared by slices: whole runs at once, not token by token
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    return bisect_left(range(1, shorter + 1), 1, key=lambda end: int(left[:end] != right[:end]))


def _check(samples: Sequence[Sample]) -> None:
    if not samples:
        raise ValueError("samples: there are none")
    for sample in samples:
        if not sample.token_ids:
            raise ValueError(f"sample of task {sample.task_id!r} has no tokens")
        if sample.loss_mask[0]:
            raise ValueError(f"sample of task {sample.task_id!r} starts with an own token, unpredicted")


def _layout(
    samples: Sequence[Sample],
    token_ids_RN: Tensor,
    position_ids_RN: Tensor,
    tree: Tree | None,
    places: Sequence[Sequence[int]],
) -> Layout:
    """`places`: of each sample, where its tokens stand."""
    lengths_B = torch.tensor([sample.num_own_tokens for sample in samples])
    mask_BT = torch.arange(int(lengths_B.max())) < lengths_B[:, None]
    source_P: list[int] = []
    target_P: list[int] = []
    for sample, place_N in zip(samples, places, strict=True):
        # each is predicted where the token before it stands
        source_P += itertools.compress(place_N, sample.loss_mask[1:])
        target_P += itertools.compress(sample.token_ids, sample.loss_mask)
    end_B = torch.tensor([place_N[-1] for place_N in places])
    asked = choices(torch.tensor(source_P, dtype=torch.long), torch.tensor(target_P, dtype=torch.long))
    return Layout(token_ids_RN, position_ids_RN, tree, mask_BT, end_B, asked)
