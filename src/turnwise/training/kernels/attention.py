"""Exact attention along every path of a packed tree, forward and backward.

Each segment is attended to in two pieces: by itself, causally, and by all its descendants, in full. Pieces
are merged by their log-sum-exps. The backward pass of a piece under the *merged* output and log-sum-exp gives
that piece's share of the whole gradient, since P = exp(q·k − lse) and D = Σ dO·O are then those of the whole
row (as in ring attention, arXiv 2310.01889). Nothing quadratic is stored.

A prefix whose keys and values come from outside is one more piece, seen in full by the whole row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from turnwise.models.devices import to_device
from turnwise.training.kernels.flash import FlashPlan, FlashTreeAttention, can_flash, plan_flash
from turnwise.training.kernels.partial_attention import backward_piece, forward_piece
from turnwise.training.kernels.prefix import Keeper, KeysValues, Prefix
from turnwise.training.kernels.triton_attention import (
    TritonPlan,
    TritonTreeAttention,
    can_triton,
    plan_triton,
)
from turnwise.training.packing.tree import Tree, TreeSegment

NAME = "turnwise_tree"
"""The name of this attention in transformers' registry."""

SHORT = 128
"""Segments with fewer tokens are padded and run together: a kernel call for each would cost more."""

SHORT_ON_GPU = 1024
"""The same limit on a GPU, where launching a kernel dominates the cost."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Short segments of similar length, padded on the right, where causal attention never sees it."""

    index_SL: Tensor
    """Indices in the packed row; 0 for padding."""
    is_real_SL: Tensor | None
    """False for padding; None if there is no padding."""
    flat_P: Tensor
    """For each real token, its index in S·L; computed beforehand, so that nothing waits for a GPU."""
    place_P: Tensor
    """For each real token, its index in the packed row."""

    def gather(self, values: Tensor, group: int) -> Tensor:
        """Return [K, 1 or G, N, ...] as [S, K·G, L, ...]; padding is 0, so that its gradients are 0."""
        num_segments, length = self.index_SL.shape
        parts = values.index_select(2, self.index_SL.flatten())
        parts = parts.reshape(*parts.shape[:2], num_segments, length, *parts.shape[3:])
        if self.is_real_SL is not None:
            is_real = self.is_real_SL[(..., *(None,) * (values.ndim - 3))]
            parts = torch.where(is_real, parts, parts.new_zeros(()))
        return parts.expand(-1, group, *parts.shape[2:]).flatten(0, 1).transpose(0, 1)

    def add(self, target: Tensor, parts: Tensor) -> None:
        """Add parts to `whole`, the reverse of `gather`; query heads that share a key head are added up."""
        parts = parts.transpose(1, 2).flatten(0, 1).index_select(0, self.flat_P).movedim(1, 0)
        parts = parts.reshape(len(target), -1, *parts.shape[1:])
        if target.shape[1] == 1:
            parts = parts.sum(1, keepdim=True)
        target.index_add_(2, self.place_P, parts.to(target.dtype))


@dataclass(frozen=True)
class AttentionPlan:
    """Which tokens attend to which; built once per forward pass, read by every layer.

    Tables for kernels are built only for the kernels that run.
    """

    tree: Tree
    device: torch.device
    prefix: Prefix | None = None
    """The prefix before the whole row."""
    keeper: Keeper | None = None
    """Collects the row's own keys and values; None if they are not needed."""

    @property
    def long(self) -> list[TreeSegment]:
        """Segments whose causal piece is a separate kernel call."""
        return [segment for segment in self.tree.segments if segment.length >= self._short]

    @property
    def inner(self) -> list[TreeSegment]:
        """Segments with descendants."""
        return [segment for segment in self.tree.segments if segment.stop > segment.end]

    @property
    def _short(self) -> int:
        return SHORT if self.device.type == "cpu" else SHORT_ON_GPU

    @cached_property
    def buckets(self) -> list[Bucket]:
        """Short segments, whose causal pieces run together."""
        by_size: dict[int, list[TreeSegment]] = {}
        for segment in self.tree.segments:
            if segment.length < self._short:
                # sizes 1, 2, 3, 4, 6, 8, 12, …: less than a third is padding
                by_size.setdefault(_rounded(segment.length), []).append(segment)
        return [_bucket(segments, self.device) for _, segments in sorted(by_size.items())]

    @cached_property
    def flash(self) -> FlashPlan:
        """The plan for CUDA's flash kernels."""
        return plan_flash(self.tree.segments, _num_tokens(self.prefix), self.device)

    @cached_property
    def triton(self) -> TritonPlan:
        """The plan for our Triton kernels on Hopper GPUs."""
        return plan_triton(self.tree.segments, _num_tokens(self.prefix), self.device)


def _num_tokens(prefix: Prefix | None) -> int:
    return 0 if prefix is None else next(iter(prefix.layers.values()))[0].shape[2]


def _rounded(length: int) -> int:
    power = 1 << (length - 1).bit_length()
    return power * 3 // 4 if power >= 4 and length <= power * 3 // 4 else power


def _bucket(segments: Sequence[TreeSegment], device: torch.device) -> Bucket:
    starts = torch.tensor([segment.start for segment in segments])
    lengths = torch.tensor([segment.length for segment in segments])
    step_L = torch.arange(int(lengths.max()))
    is_real_SL = step_L < lengths[:, None]
    index_SL = torch.where(is_real_SL, starts[:, None] + step_L, 0)
    flat_P = is_real_SL.flatten().nonzero()[:, 0]
    return Bucket(
        to_device(index_SL, device),
        None if is_real_SL.all() else to_device(is_real_SL, device),
        to_device(flat_P, device),
        to_device(index_SL.flatten()[flat_P], device),
    )


class TreeAttention(torch.autograd.Function):
    """Attention of [K, G, N, D] queries on [K, 1, N, D] keys and values: G query heads per key head.

    `before`: keys and values [K, 1, P, D] of the P tokens before the row, or nothing.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        plan: AttentionPlan,
        scale: float,
        *before: Tensor,
    ) -> Tensor:
        out, lse = _attend(query, key, value, plan, scale, before)
        ctx.save_for_backward(query, key, value, out, lse, *before)
        ctx.plan, ctx.scale = plan, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, lse, *before = ctx.saved_tensors
        grad_query, grad_key, grad_value = (
            torch.zeros_like(tensor, dtype=lse.dtype) for tensor in (query, key, value)
        )
        for queries, keys, is_causal in _blocks(ctx.plan):
            at_queries = [tensor[:, :, queries] for tensor in (query, out, lse, grads[0])]
            at_keys = [tensor[:, :, keys] for tensor in (key, value)]
            parts = backward_piece(*at_queries, *at_keys, scale=ctx.scale, is_causal=is_causal)
            grad_query[:, :, queries] += parts[0]
            grad_key[:, :, keys] += parts[1].sum(1, keepdim=True)
            grad_value[:, :, keys] += parts[2].sum(1, keepdim=True)
        for bucket in ctx.plan.buckets:
            parts = backward_piece(
                *(
                    bucket.gather(tensor, query.shape[1])
                    for tensor in (query, out, lse, grads[0], key, value)
                ),
                scale=ctx.scale,
                is_causal=True,
            )
            for target, part in zip((grad_query, grad_key, grad_value), parts, strict=True):
                bucket.add(target, part)
        grads_before = []
        if before:
            at_keys = [tensor.to(query.dtype) for tensor in before]
            parts = backward_piece(query, out, lse, grads[0], *at_keys, scale=ctx.scale, is_causal=False)
            grad_query += parts[0]
            grads_before = [part.sum(1, keepdim=True, dtype=before[0].dtype) for part in parts[1:]]
        own = grad_query.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype)
        return *own, None, None, *grads_before


def _attend(
    query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan, scale: float, before: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """Return the merged output, in the queries' dtype, and its log-sum-exp."""
    num_key_heads, group, num_tokens, dim = query.shape
    exact = torch.promote_types(query.dtype, torch.float32)
    # tokens outermost in memory, as the model reads them next
    out = query.new_zeros((num_tokens, num_key_heads, group, dim), dtype=exact).permute(1, 2, 0, 3)
    lse = query.new_zeros((num_key_heads, group, num_tokens), dtype=exact)
    for bucket in plan.buckets:
        gathered = [bucket.gather(tensor, group) for tensor in (query, key, value)]
        piece_out, piece_lse = forward_piece(*gathered, scale=scale, is_causal=True)
        bucket.add(out, piece_out)
        bucket.add(lse, piece_lse)
    for queries, keys, is_causal in _blocks(plan):
        piece_out, piece_lse = forward_piece(
            query[:, :, queries], key[:, :, keys], value[:, :, keys], scale=scale, is_causal=is_causal
        )
        if is_causal:
            out[:, :, queries], lse[:, :, queries] = piece_out, piece_lse
        else:
            _merge(out[:, :, queries], lse[:, :, queries], piece_out, piece_lse)
    if before:
        at_keys = [tensor.to(query.dtype) for tensor in before]
        _merge(out, lse, *forward_piece(query, *at_keys, scale=scale, is_causal=False))
    return out.to(query.dtype), lse


def _blocks(plan: AttentionPlan) -> Iterator[tuple[slice, slice, bool]]:
    """Yield (queries, keys, is_causal) of all pieces but those in buckets; the causal ones come first."""
    for segment in plan.long:
        own = slice(segment.start, segment.end)
        yield own, own, True
    for segment in plan.inner:
        yield slice(segment.end, segment.stop), slice(segment.start, segment.end), False


def _merge(out: Tensor, lse: Tensor, other_out: Tensor, other_lse: Tensor) -> None:
    """Combine attention over two disjoint contexts, in place in the first."""
    both_lse = torch.logaddexp(lse, other_lse)
    out.mul_(torch.exp(lse - both_lse)[..., None])
    out.addcmul_(other_out, torch.exp(other_lse - both_lse)[..., None])
    lse.copy_(both_lse)


def forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    tree_plan: AttentionPlan | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention of every layer for transformers; without a plan, plain SDPA keeps the model usable."""
    if tree_plan is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        result: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
        return result
    for option in ("sliding_window", "softcap", "s_aux", "position_bias"):
        if kwargs.get(option) is not None:
            raise ValueError(f"attention with {option} cannot share prefixes: set update.shared_prefix=false")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    if tree_plan.keeper is not None:
        tree_plan.keeper.keep(module, key, value)
    before: KeysValues | tuple[()] = () if tree_plan.prefix is None else tree_plan.prefix.layers[module]
    is_triton = can_triton(query, key)
    if is_triton or can_flash(query):
        kind = TritonTreeAttention if is_triton else FlashTreeAttention
        plan = tree_plan.triton if is_triton else tree_plan.flash
        own, outer = ([part[0].transpose(0, 1) for part in parts] for parts in ((query, key, value), before))
        rows: Tensor = kind.apply(*own, plan, scale, *outer)  # type: ignore[no-untyped-call]
        return rows[None], None
    num_key_heads = key.shape[1]
    grouped = query[0].view(num_key_heads, -1, *query.shape[2:])
    out: Tensor = TreeAttention.apply(  # type: ignore[no-untyped-call]
        grouped,
        key[0, :, None],
        value[0, :, None],
        tree_plan,
        scale,
        *(tensor[0, :, None] for tensor in before),
    )
    return out.permute(2, 0, 1, 3).flatten(1, 2)[None], None


def register() -> None:
    """Register the attention with transformers; repeated calls change nothing."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(NAME, forward)
    AttentionMaskInterface.register(NAME, sdpa_mask)
