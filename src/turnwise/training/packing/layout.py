"""The token layout of a micro-batch: one packed tree, or plain padded rows.

The packed row holds each shared prefix once (see `tree`). If all samples of a pass begin with the same
tokens, that prefix is run once for all micro-batches, and carried. A row then holds only what follows the
first `num_carried` tokens, at the positions it has in its sample.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.models.devices import to_device
from turnwise.training.packing.head import Choices, choices
from turnwise.training.packing.samples import Sample
from turnwise.training.packing.tree import MIN_SHARED, Tree, TreeBuilder, TreeSegment, by_ids, count_shared


@dataclass(frozen=True, slots=True)
class PackedLayout:
    """A micro-batch. R is 1 for a packed row, the number of samples for padded rows; B counts samples.

    T counts the model's own tokens only, left-aligned. Padding is on the right, where causal attention never
    sees it, so no mask is needed.
    """

    token_ids_RN: Tensor
    position_ids_RN: Tensor
    tree: Tree | None
    """None for padded rows."""
    mask_BT: Tensor
    """True where sample b has a t-th own token."""
    end_B: Tensor
    """The flat index, into R·N, of each sample's last position."""
    asked: Choices
    """The own tokens, row by row, and the positions (flat, into R·N) whose output predicts them."""

    @property
    def num_tokens(self) -> int:
        """Tokens that the model computes, padding included."""
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
    """Lay out one row per sample, padded to the longest."""
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
    """Lay out all samples in one row, shared prefixes once, without the first `num_carried` tokens."""
    _check(samples)
    order, tails = by_ids(samples, num_carried)
    builder = TreeBuilder(min_shared)
    places: list[Sequence[int]] = [()] * len(samples)
    before: tuple[int, ...] = ()
    place_N = [-1] * num_carried  # not in the row, and their output is never needed
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
    """Lay out a prefix that is run only for its keys and values; no output is requested."""
    size, none_BT = len(token_ids), torch.empty((0, 0), dtype=torch.long)
    tree = Tree((TreeSegment(0, size, size),))
    ids_RN, position_ids_RN = torch.tensor([token_ids]), torch.arange(size)[None]
    end_B = none_BT.flatten()
    asked = choices(end_B, end_B)
    return PackedLayout(ids_RN, position_ids_RN, tree, none_BT.bool(), end_B, asked)


def common_prefix(samples: Sequence[Sample]) -> tuple[int, ...]:
    """Return the common prefix, cut before the first position whose output is needed.

    Output is needed at the position before an own token, and at a sample's last position.
    """
    ids = [sample.token_ids for sample in samples]
    # what the smallest and the largest share, all in between share too
    end = count_shared(min(ids), max(ids))
    for sample in samples:
        first_own = sample.loss_mask.index(1) if sample.num_own_tokens else len(sample.token_ids)
        end = min(end, max(first_own - 1, 0))
    return ids[0][:end]


def _check(samples: Sequence[Sample]) -> None:
    if not samples:
        raise ValueError("samples: the batch has no samples")
    for sample in samples:
        if sample.temperature <= 0:
            raise ValueError(f"temperature must be above 0 to be trained at, not {sample.temperature}")
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
    """Build the layout; `places` has the flat index of every token of each sample."""
    lengths_B = torch.tensor([sample.num_own_tokens for sample in samples])
    mask_BT = torch.arange(int(lengths_B.max())) < lengths_B[:, None]
    source_P: list[int] = []
    target_P: list[int] = []
    temperature_P: list[float] = []
    for sample, place_N in zip(samples, places, strict=True):
        # a token is predicted at the position of the token before it
        source_P += itertools.compress(place_N, sample.loss_mask[1:])
        target_P += itertools.compress(sample.token_ids, sample.loss_mask)
        temperature_P += [sample.temperature] * sample.num_own_tokens
    end_B = torch.tensor([place_N[-1] for place_N in places])
    asked = choices(
        torch.tensor(source_P, dtype=torch.long),
        torch.tensor(target_P, dtype=torch.long),
        torch.tensor(temperature_P),
    )
    return PackedLayout(token_ids_RN, position_ids_RN, tree, mask_BT, end_B, asked)
