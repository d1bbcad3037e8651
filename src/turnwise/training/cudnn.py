"""Gradients of attention along a packed tree by cuDNN's dense kernels, which are the fastest on Hopper.

cuDNN takes rows of one length and builds a plan for every new shape, so lengths are rounded up. Rounding is
exact: a query past the end has a log-sum-exp so large that its weights are zero, and a key past the end is
zero, so it adds nothing to a query's gradient. Long pieces are windows of the packed tensors, not copies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from turnwise.devices import handed
from turnwise.training.flash import Range
from turnwise.training.tree import Segment

_aten = torch.ops.aten

SHORT = 1024
"""Segments below this length are computed together: alone they would not fill a GPU."""
UNSEEN = 1e30
"""The log-sum-exp of a padded query: its weights are exp(score − this) = 0."""


@dataclass(frozen=True, slots=True)
class Window:
    """Queries and keys of one dense call, by place in the packed row; sizes are the rounded lengths."""

    queries: Range
    query_size: int
    keys: Range
    key_size: int
    is_causal: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Short segments of like length, padded at the end."""

    index_SL: Tensor
    is_real_SL: Tensor
    flat_P: Tensor
    """Where the real tokens stand in S·L."""
    place_P: Tensor
    """Where they stand in the packed row."""


@dataclass(frozen=True, slots=True)
class DensePlan:
    windows: tuple[Window, ...]
    """Long segments by themselves."""
    batches: tuple[Batch, ...]
    """Short segments by themselves."""
    inner: tuple[Window, ...]
    """Segments with descendants, seen by those in full; places of keys count what stands before the row."""
    num_before: int


def rounded(length: int) -> int:
    """Up by at most a sixteenth, or to a multiple of 64."""
    step = max(64, (1 << (length.bit_length() - 1)) // 16)
    return -(-length // step) * step


def plan_dense(segments: Sequence[Segment], num_before: int, device: torch.device) -> DensePlan:
    windows, by_size = [], dict[int, list[Segment]]()
    for segment in segments:
        size, own = rounded(segment.length), (segment.start, segment.end)
        if segment.length < SHORT:
            by_size.setdefault(size, []).append(segment)
        else:
            windows.append(Window(own, size, own, size, is_causal=True))
    spans = [((each.end, each.stop), (each.start, each.end)) for each in segments if each.stop > each.end]
    spans = [(queries, (start + num_before, end + num_before)) for queries, (start, end) in spans]
    if num_before:
        spans.append(((0, segments[-1].end), (0, num_before)))
    inner = [Window(q, rounded(q[1] - q[0]), k, rounded(k[1] - k[0]), is_causal=False) for q, k in spans]
    batches = tuple(_batch(each, size, device) for size, each in sorted(by_size.items()))
    return DensePlan(tuple(windows), batches, tuple(inner), num_before)


def _batch(segments: Sequence[Segment], size: int, device: torch.device) -> Batch:
    # few batch sizes, so that few plans are built: rows past the last segment are empty
    num_rows = 1 << (len(segments) - 1).bit_length()
    lengths = torch.zeros(num_rows, dtype=torch.long)
    starts = torch.zeros(num_rows, dtype=torch.long)
    lengths[: len(segments)] = torch.tensor([each.length for each in segments])
    starts[: len(segments)] = torch.tensor([each.start for each in segments])
    step_L = torch.arange(size)
    is_real_SL = step_L < lengths[:, None]
    index_SL = torch.where(is_real_SL, starts[:, None] + step_L, 0)
    flat_P = is_real_SL.flatten().nonzero()[:, 0]
    parts = (index_SL, is_real_SL, flat_P, index_SL.flatten()[flat_P])
    return Batch(*(handed(each, device) for each in parts))


def dense_forward(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, is_causal: bool
) -> tuple[Tensor, Tensor]:
    """Output [b, H, q, D] and log-sum-exp [b, H, q, 1]."""
    out, lse, *_ = _aten._scaled_dot_product_cudnn_attention(
        query, key, value, None, True, 0.0, is_causal, False, scale=scale
    )
    return out, lse


def dense_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    *,
    scale: float,
    is_causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of [b, H, q, D] queries and [b, K, k, D] keys and values under a given log-sum-exp."""
    seed = torch.empty((), dtype=torch.long, device=query.device)  # dropout's, of which there is none
    grads: tuple[Tensor, Tensor, Tensor] = _aten._scaled_dot_product_cudnn_attention_backward(
        grad_out, query, key, value, out, lse, seed, seed, None, None, None,
        query.shape[2], key.shape[2], 0.0, is_causal, scale=scale,
    )  # fmt: skip
    return grads


def _window(tokens: Tensor, start: int, size: int) -> Tensor:
    """`size` tokens from `start` as [1, H, size, D], with whatever stands past the end of the piece."""
    found = tokens[start : start + size]
    if len(found) < size:
        found = pad(found, (0, 0, 0, 0, 0, size - len(found)))
    return found.transpose(0, 1)[None]


def _zero_padded(tokens: Tensor, at: Range, size: int) -> Tensor:
    return pad(tokens[at[0] : at[1]], (0, 0, 0, 0, 0, size - at[1] + at[0])).transpose(0, 1)[None]


def tree_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    plan: DensePlan,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries [N, H, D] and of keys and values [P + N, K, D], `lse` being [H, N]."""
    grad_query, grad_key, grad_value = (torch.empty_like(each) for each in (query, key, value))
    before = plan.num_before
    own_key, own_value = key[before:], value[before:]
    for window in plan.windows:
        start, end = window.queries
        tokens = [
            _window(each, start, window.query_size) for each in (grad_out, query, own_key, own_value, out)
        ]
        parts = dense_backward(*tokens, _window_lse(lse, window), scale=scale, is_causal=True)
        for whole, part, shift in zip(
            (grad_query, grad_key, grad_value), parts, (0, before, before), strict=True
        ):
            whole[start + shift : end + shift] = part[0, :, : end - start].transpose(0, 1)
    for batch in plan.batches:
        tokens = [each[batch.index_SL].transpose(1, 2) for each in (grad_out, query, own_key, own_value, out)]
        batch_lse = torch.where(batch.is_real_SL[None], lse[:, batch.index_SL], UNSEEN)
        parts = dense_backward(
            *tokens, batch_lse.transpose(0, 1)[..., None].contiguous(), scale=scale, is_causal=True
        )
        for whole, part in zip((grad_query, grad_key[before:], grad_value[before:]), parts, strict=True):
            whole[batch.place_P] = part.transpose(1, 2).flatten(0, 1)[batch.flat_P]
    if before:
        grad_key[:before] = 0
        grad_value[:before] = 0
    for window in plan.inner:
        (start, end), (first, last) = window.queries, window.keys
        grads, queries, outs = (_window(each, start, window.query_size) for each in (grad_out, query, out))
        keys, values = (_zero_padded(each, window.keys, window.key_size) for each in (key, value))
        parts = dense_backward(
            grads, queries, keys, values, outs, _window_lse(lse, window), scale=scale, is_causal=False
        )
        grad_query[start:end] += parts[0][0, :, : end - start].transpose(0, 1)
        grad_key[first:last] += parts[1][0, :, : last - first].transpose(0, 1)
        grad_value[first:last] += parts[2][0, :, : last - first].transpose(0, 1)
    return grad_query, grad_key, grad_value


def _window_lse(lse: Tensor, window: Window) -> Tensor:
    start, end = window.queries
    return pad(lse[:, start:end], (0, window.query_size - end + start), value=UNSEEN)[None, ..., None]


def own_forward(
    query: Tensor, key: Tensor, value: Tensor, plan: DensePlan, scale: float
) -> tuple[Tensor, Tensor]:
    """Output [N, H, D] and log-sum-exp [H, N] of every segment by itself."""
    out = torch.empty_like(query)
    exact = torch.promote_types(query.dtype, torch.float32)
    lse = query.new_empty((query.shape[1], len(query)), dtype=exact)
    own_key, own_value = key[plan.num_before :], value[plan.num_before :]
    for window in plan.windows:
        start, end = window.queries
        tokens = [_window(each, start, window.query_size) for each in (query, own_key, own_value)]
        part, part_lse = dense_forward(*tokens, scale=scale, is_causal=True)
        out[start:end] = part[0, :, : end - start].transpose(0, 1)
        lse[:, start:end] = part_lse[0, :, : end - start, 0]
    for batch in plan.batches:
        tokens = [each[batch.index_SL].transpose(1, 2) for each in (query, own_key, own_value)]
        part, part_lse = dense_forward(*tokens, scale=scale, is_causal=True)
        out[batch.place_P] = part.transpose(1, 2).flatten(0, 1)[batch.flat_P]
        lse[:, batch.place_P] = part_lse[..., 0].transpose(0, 1).flatten(1)[:, batch.flat_P]
    return out, lse
