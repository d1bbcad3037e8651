"""Attention along every path of a packed tree by CUDA's flash kernels.

The method is that of `attention`, on tensors [N, heads, dim], which is the model's own layout. The kernels
take packed rows of different lengths, so that all segments attend to themselves in one call. They also take
fewer key heads than query heads, so that no keys are copied.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from turnwise.models.devices import to_device
from turnwise.training.packing.tree import TreeSegment

_aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Consecutive rows of a packed tensor, in the form that the kernels take."""

    bounds: Tensor
    """int32: the start of each row, then the end of the last."""
    longest: int


Range = tuple[int, int]
Places = slice | Tensor
"""Tokens by their index in the packed row: one range, or a list of indices."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of queries, each of which sees all of one row of keys."""

    queries: Places
    keys: Places
    query_rows: PackedRows
    key_rows: PackedRows


@dataclass(frozen=True, slots=True)
class FlashPlan:
    """Which tokens attend to which; built once per forward pass, read by every layer."""

    own: PackedRows
    """Every segment, which attends to itself causally."""
    inner: tuple[Piece, ...]
    """Segments with descendants, one piece per depth: a token sees at most one segment of a depth."""
    before: Piece | None
    """The prefix before the whole row, seen by all of it; None without a prefix."""


def plan_flash(segments: Sequence[TreeSegment], num_before: int, device: torch.device) -> FlashPlan:
    levels = _levels(segments)
    spans = [
        (
            [(segment.end, segment.stop) for segment in level],
            [(segment.start, segment.end) for segment in level],
        )
        for level in levels
    ]
    if num_before:
        spans.append(([(0, segments[-1].end)], [(0, num_before)]))
    own = [(segment.start, segment.end) for segment in segments]
    rows = _rows([own, *(ranges for pair in spans for ranges in pair)], device)
    own_rows = next(rows)
    levels_and_prefix = [
        Piece(_places(queries, device), _places(keys, device), next(rows), next(rows))
        for queries, keys in spans
    ]
    return FlashPlan(
        own_rows, tuple(levels_and_prefix[: len(levels)]), levels_and_prefix[-1] if num_before else None
    )


def _levels(segments: Sequence[TreeSegment]) -> list[list[TreeSegment]]:
    """Return the segments with descendants by their depth, in the row's order."""
    levels: dict[int, list[TreeSegment]] = {}
    path: list[TreeSegment] = []
    for segment in segments:
        while path and path[-1].stop <= segment.start:
            path.pop()
        if segment.stop > segment.end:
            levels.setdefault(len(path), []).append(segment)
            path.append(segment)
    return list(levels.values())


def _places(ranges: Sequence[Range], device: torch.device) -> Places:
    if len(ranges) == 1:
        return slice(*ranges[0])
    return to_device(torch.cat([torch.arange(*one_range) for one_range in ranges]), device)


def _rows(ranges: Sequence[Sequence[Range]], device: torch.device) -> Iterator[PackedRows]:
    """Yield the packed rows of each list of ranges; all bounds go to the device in one copy."""
    lengths = [[end - start for start, end in one_range] for one_range in ranges]
    bounds = [torch.tensor([0, *length]).cumsum(0) for length in lengths]
    all_bounds = to_device(torch.cat(bounds).to(torch.int32), device)
    parts = torch.split(all_bounds, [len(bound) for bound in bounds])
    return (PackedRows(part, max(length)) for part, length in zip(parts, lengths, strict=True))


def can_flash(query: Tensor) -> bool:
    dim = query.shape[-1]
    is_half = query.dtype in (torch.float16, torch.bfloat16)
    return query.device.type == "cuda" and is_half and dim % 8 == 0 and dim <= 256


def forward_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rows: tuple[PackedRows, PackedRows],
    *,
    scale: float,
    is_causal: bool,
) -> tuple[Tensor, Tensor]:
    """Return output [N, H, D] and log-sum-exp [H, N]."""
    queries, keys = rows
    out, lse, *_ = _aten._flash_attention_forward(
        query, key, value, queries.bounds, keys.bounds, queries.longest, keys.longest,
        0.0, is_causal, False, scale=scale,
    )  # fmt: skip
    return out, lse


def backward_rows(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    rows: tuple[PackedRows, PackedRows],
    *,
    scale: float,
    is_causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return gradients of queries, keys and values; `out` and `lse` are those of the whole context."""
    queries, keys = rows
    seed = torch.empty(2, dtype=torch.uint64, device=query.device)  # for dropout, which is off
    grads: tuple[Tensor, Tensor, Tensor] = _aten._flash_attention_backward(
        grad_out, query, key, value, out, lse.contiguous(), queries.bounds, keys.bounds,
        queries.longest, keys.longest, 0.0, is_causal, seed, seed, scale=scale,
    )  # fmt: skip
    return grads


class FlashTreeAttention(torch.autograd.Function):
    """Attention of [N, H, D] queries on [N, K, D] keys and values.

    `before`: keys and values [P, K, D] of the P tokens before the row, or nothing.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, plan: FlashPlan, scale: float, *before: Tensor
    ) -> Tensor:
        own = (plan.own, plan.own)
        out, lse = forward_rows(query, key, value, own, scale=scale, is_causal=True)
        for piece, keys, values in _seen(plan, key, value, before):
            rows = (piece.query_rows, piece.key_rows)
            part = forward_rows(query[piece.queries], keys, values, rows, scale=scale, is_causal=False)
            _merge(out, lse, piece.queries, *part)
        ctx.save_for_backward(query, key, value, out, lse, *before)
        ctx.plan, ctx.scale = plan, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, lse, *before = ctx.saved_tensors
        plan: FlashPlan = ctx.plan
        grad_out = grads[0].contiguous()
        options = {"scale": ctx.scale}
        grad_query, grad_key, grad_value = backward_rows(
            grad_out, query, key, value, out, lse, (plan.own, plan.own), is_causal=True, **options
        )
        grads_before: list[Tensor] = []
        for piece, keys, values in _seen(plan, key, value, before):
            at = piece.queries
            more_query, more_key, more_value = backward_rows(
                grad_out[at], query[at], keys, values, out[at], lse[:, at],
                (piece.query_rows, piece.key_rows), is_causal=False, **options,
            )  # fmt: skip
            grad_query[at] += more_query
            if piece is plan.before:
                grads_before = [more_key.to(before[0].dtype), more_value.to(before[1].dtype)]
            else:
                grad_key[piece.keys] += more_key
                grad_value[piece.keys] += more_value
        return grad_query, grad_key, grad_value, None, None, *grads_before


def _seen(
    plan: FlashPlan, key: Tensor, value: Tensor, before: Sequence[Tensor]
) -> Iterator[tuple[Piece, Tensor, Tensor]]:
    """Yield every piece that is seen in full, with its keys and values."""
    for piece in plan.inner:
        yield piece, key[piece.keys], value[piece.keys]
    if plan.before is not None:
        keys, values = (tensor.to(key.dtype) for tensor in before)
        yield plan.before, keys, values


def _merge(out: Tensor, lse: Tensor, at: Places, other_out: Tensor, other_lse: Tensor) -> None:
    """Combine attention over two disjoint contexts, in place in the first at its tokens `at`."""
    own_lse = lse[:, at]
    both = torch.logaddexp(own_lse, other_lse)
    mine, others = (torch.exp(lse - both).T[..., None] for lse in (own_lse, other_lse))
    out[at] = (out[at] * mine).addcmul_(other_out, others).to(out.dtype)
    lse[:, at] = both
