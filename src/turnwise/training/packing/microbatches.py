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
    """Return row numbers in parts of at most `tokens` computed tokens; a larger sample is a part by itself.

    Parts group samples that share a prefix if `is_shared`, else samples of similar length. The number of
    parts is the smallest that fits, rounded up to a multiple of `num_ranks` if the samples allow it. Parts
    are of similar size, because the largest one decides the memory. A carried prefix is computed once but
    counts in every part, because it is in memory with each of them.
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
    """Return whether the samples fit into one part."""
    _, starts_of = _splitting(samples, is_shared=is_shared)
    return len(starts_of(tokens)) == 1


def _splitting(
    samples: Sequence[Sample], *, is_shared: bool, min_shared: int = MIN_SHARED, num_carried: int = 0
) -> tuple[list[int], Callable[[int], list[int]]]:
    """Return the rows' order, and a function from a token budget to where parts begin in that order."""
    if not is_shared:
        lengths = [len(sample.token_ids) - num_carried for sample in samples]
        order = sorted(range(len(samples)), key=lambda number: (lengths[number], number))
        return order, partial(_starts, [lengths[number] for number in order])
    order, tails = by_ids(samples, num_carried)
    ordered = [tails[number] for number in order]
    common = [0, *(count_shared(before, ids) for before, ids in itertools.pairwise(ordered))]
    return order, partial(_shared_starts, [len(ids) for ids in ordered], common, min_shared)


def _starts(lengths: Sequence[int], budget: int) -> list[int]:
    """Return where padded parts begin; `lengths` is in ascending order."""
    starts: list[int] = []
    for number, length in enumerate(lengths):
        if not starts or (number - starts[-1] + 1) * length > budget:
            starts.append(number)
    return starts


def _shared_starts(lengths: Sequence[int], common: Sequence[int], min_shared: int, budget: int) -> list[int]:
    """Return where packed parts begin; `common` counts what each sample shares with the one before it."""
    starts: list[int] = []
    builder = TreeBuilder(min_shared)
    for number, length in enumerate(lengths):
        # a sample's cost is known once it is added; over the budget, it begins the next part
        builder.add(length, common[number])
        if not starts or builder.num_tokens > budget:
            builder = TreeBuilder(min_shared)
            builder.add(length, 0)
            starts.append(number)
    return starts
