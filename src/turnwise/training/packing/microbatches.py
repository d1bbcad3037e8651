"""Split samples into micro-batches within a budget of tokens."""

import itertools
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial

from turnwise.training.packing.samples import Sample
from turnwise.training.packing.tree import MIN_SHARED, TreeBuilder, by_ids, count_shared


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
    order, tails = by_ids(samples, num_carried)
    ordered = [tails[number] for number in order]
    common = [0, *(count_shared(before, ids) for before, ids in itertools.pairwise(ordered))]
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
    builder = TreeBuilder(min_shared)
    for number, length in enumerate(lengths):
        # what it takes is known once it is placed: past the budget it begins a part of its own
        builder.add(length, common[number])
        if not starts or builder.num_tokens > budget:
            builder = TreeBuilder(min_shared)
            builder.add(length, 0)
            starts.append(number)
    return starts
