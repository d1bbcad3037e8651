"""The token layout of a micro-batch: one packed tree, or plain padded rows.

The packed row holds every prefix that samples share once (see `tree`). Where all micro-batches of a pass
begin alike, that prefix is run once for all of them: a row then holds what comes after it (`num_carried`
tokens on), at the positions it has in its sample.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.runtime.devices import to_device
from turnwise.training.packing.head import Choices, choices
from turnwise.training.packing.samples import Sample
from turnwise.training.packing.tree import MIN_SHARED, Tree, TreeBuilder, TreeSegment, by_ids, count_shared


@dataclass(frozen=True, slots=True)
class PackedLayout:
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

    def to(self, device: torch.device) -> "PackedLayout":
        return PackedLayout(
            to_device(self.token_ids_RN, device),
            to_device(self.position_ids_RN, device),
            self.tree,
            to_device(self.mask_BT, device),
            to_device(self.end_B, device),
            self.asked.to(device),
        )


def padded(samples: Sequence[Sample]) -> PackedLayout:
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


def shared(samples: Sequence[Sample], *, min_shared: int = MIN_SHARED, num_carried: int = 0) -> PackedLayout:
    """All samples in one row, what they share once; without the tokens that a carried prefix stands for."""
    _check(samples)
    order, tails = by_ids(samples, num_carried)
    builder = TreeBuilder(min_shared)
    places: list[Sequence[int]] = [()] * len(samples)
    before: tuple[int, ...] = ()
    place_N = [-1] * num_carried  # outside the row, and never asked for
    token_ids: list[int] = []
    position_ids: list[int] = []
    for number in order:
        ids = tails[number]
        depth = builder.add(len(ids), count_shared(before, ids))
        fresh = range(builder.num_tokens - (len(ids) - depth), builder.num_tokens)
        place_N = [*place_N[: num_carried + depth], *fresh]
        places[number] = place_N
        token_ids += ids[depth:]
        position_ids += range(num_carried + depth, num_carried + len(ids))
        before = ids
    tree = Tree(builder.finish())
    return _layout(samples, torch.tensor([token_ids]), torch.tensor([position_ids]), tree, places)


def alone(token_ids: Sequence[int]) -> PackedLayout:
    """A prefix by itself: it is run for its keys and values, no output of it is asked for."""
    size, none_BT = len(token_ids), torch.empty((0, 0), dtype=torch.long)
    tree = Tree((TreeSegment(0, size, size),))
    ids_RN, position_ids_RN = torch.tensor([token_ids]), torch.arange(size)[None]
    end_B = none_BT.flatten()
    asked = choices(end_B, end_B)
    return PackedLayout(ids_RN, position_ids_RN, tree, none_BT.bool(), end_B, asked)


def common_prefix(samples: Sequence[Sample]) -> tuple[int, ...]:
    """What all begin with, short of any position whose output is needed: before an own token, at an end."""
    ids = [sample.token_ids for sample in samples]
    # what the first and the last in order share, all between them do
    end = count_shared(min(ids), max(ids))
    for sample in samples:
        first_own = sample.loss_mask.index(1) if sample.num_own_tokens else len(sample.token_ids)
        end = min(end, max(first_own - 1, 0))
    return ids[0][:end]


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
) -> PackedLayout:
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
    return PackedLayout(token_ids_RN, position_ids_RN, tree, mask_BT, end_B, asked)
