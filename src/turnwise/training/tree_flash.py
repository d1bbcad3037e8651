"""Attention along a packed tree by one Triton kernel each way; the tensors are those of `flash`.

Tables tell a kernel's programs what they do. A query block has the key ranges of its path; a key block has
the one range of queries that see it. Blocks with the most work stand first, so that the GPU ends evenly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from turnwise.devices import handed
from turnwise.training.flash import Range
from turnwise.training.tree import Segment


@dataclass(frozen=True, slots=True)
class Sizes:
    """How a kernel is cut into blocks."""

    queries: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class Tuning:
    """The sizes of the three kernels."""

    forward: Sizes = Sizes(128, 128, 8, 2)
    by_keys: Sizes = Sizes(64, 128, 8, 2)
    by_queries: Sizes = Sizes(128, 64, 8, 2)
    is_tma: bool = False
    is_atomic: bool = False


@dataclass(frozen=True, slots=True)
class TreePlan:
    """The tables of one packed row; made once a forward pass, read by every layer."""

    num_before: int
    tuning: Tuning
    ranges: Tensor
    """int32 [R, 2]: key ranges that query blocks see in full."""
    forward: Tensor
    """int32 [B, 5]: first query, end of its segment, first key of its own run, first and last range."""
    by_queries: Tensor
    """The same for the gradients of queries."""
    by_keys: Tensor
    """int32 [B, 4]: first key, end of its segment, first query that sees it, end of those queries."""


@dataclass(frozen=True, slots=True)
class _Path:
    segment: Segment
    own: int
    """Where the run of keys begins that ends with the segment."""
    ranges: tuple[Range, ...]
    """What it sees besides."""


def plan_tree(segments: Sequence[Segment], num_before: int, device: torch.device, tuning: Tuning) -> TreePlan:
    paths = _paths(segments, num_before)
    ranges = [each for path in paths for each in path.ranges] or [(0, 0)]
    tables = [
        ranges,
        _query_blocks(paths, num_before, tuning.forward.queries),
        _query_blocks(paths, num_before, tuning.by_queries.queries),
        _key_blocks(segments, num_before, tuning.by_keys.keys),
    ]
    flat = torch.tensor([number for table in tables for row in table for number in row], dtype=torch.int32)
    parts = torch.split(handed(flat, device), [len(table) * len(table[0]) for table in tables])
    shaped = (part.view(len(table), -1) for part, table in zip(parts, tables, strict=True))
    return TreePlan(num_before, tuning, *shaped)


def _paths(segments: Sequence[Segment], num_before: int) -> list[_Path]:
    """Key ranges of every segment's path, those that touch joined to one."""
    open_path: list[Segment] = []
    paths = []
    for segment in segments:
        while open_path and open_path[-1].stop <= segment.start:
            open_path.pop()
        runs: list[Range] = [(0, num_before)] if num_before else []
        for each in (*open_path, segment):
            start, end = each.start + num_before, each.end + num_before
            if runs and runs[-1][1] == start:
                start = runs.pop()[0]
            runs.append((start, end))
        paths.append(_Path(segment, runs[-1][0], tuple(runs[:-1])))
        open_path.append(segment)
    return paths


def _query_blocks(paths: Sequence[_Path], num_before: int, size: int) -> list[tuple[int, ...]]:
    blocks: list[tuple[int, tuple[int, ...]]] = []
    first_range = 0
    for path in paths:
        last_range = first_range + len(path.ranges)
        num_seen = sum(end - start for start, end in path.ranges) + num_before - path.own
        blocks += [
            (-(num_seen + row), (row, path.segment.end, path.own, first_range, last_range))
            for row in range(path.segment.start, path.segment.end, size)
        ]
        first_range = last_range
    return [block for _, block in sorted(blocks)]


def _key_blocks(segments: Sequence[Segment], num_before: int, size: int) -> list[tuple[int, ...]]:
    num_tokens = segments[-1].end
    blocks = [(row, num_before, 0, num_tokens) for row in range(0, num_before, size)]
    for segment in segments:
        blocks += [
            (row + num_before, segment.end + num_before, row, segment.stop)
            for row in range(segment.start, segment.end, size)
        ]
    return sorted(blocks, key=lambda block: block[2] - block[3])


def tree_forward(
    query: Tensor, key: Tensor, value: Tensor, plan: TreePlan, scale: float
) -> tuple[Tensor, Tensor]:
    """Output [N, H, D] and log-sum-exp [H, N]; keys and values are [P + N, K, D]."""
    from turnwise.training.tree_kernels import LOG2_E, forward_kernel

    num_tokens, heads, dim = query.shape
    sizes = plan.tuning.forward
    out = query.new_empty(query.shape)
    lse = query.new_empty((heads, num_tokens), dtype=torch.float32)
    keys: tuple[Any, ...] = (key, value)
    if plan.tuning.is_tma:
        from triton.tools.tensor_descriptor import TensorDescriptor

        keys = tuple(TensorDescriptor.from_tensor(each.flatten(1), [sizes.keys, dim]) for each in keys)
    forward_kernel[(heads, len(plan.forward))](
        query, *keys, out, lse, plan.forward, plan.ranges, plan.num_before, num_tokens,
        scale * LOG2_E.value, query.stride(0), key.stride(0), value.stride(0),
        H=heads, G=heads // key.shape[1], D=dim, BM=sizes.queries, BN=sizes.keys, TMA=plan.tuning.is_tma,
        STAGES=sizes.stages, num_warps=sizes.warps, num_stages=sizes.stages,
    )  # fmt: skip
    return out, lse


def tree_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    plan: TreePlan,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries [N, H, D] and of keys and values [P + N, K, D]."""
    from turnwise.training.tree_kernels import LOG2_E, delta_kernel, keys_kernel, queries_kernel

    num_tokens, heads, dim = query.shape
    key_heads, tuning = key.shape[1], plan.tuning
    delta = torch.empty_like(lse)
    delta_kernel[(heads, -(-num_tokens // 64))](out, grad_out, delta, num_tokens, H=heads, D=dim, BM=64)
    grad_key, grad_value = key.new_empty(key.shape), value.new_empty(value.shape)
    if tuning.is_atomic:
        grad_query = query.new_zeros(query.shape, dtype=torch.float32)
    else:
        grad_query = query.new_empty(query.shape)
    scales = (scale, scale * LOG2_E.value, query.stride(0), key.stride(0), value.stride(0))
    sizes = tuning.by_keys
    keys_kernel[(key_heads, len(plan.by_keys))](
        query, key, value, grad_out, lse, delta, grad_query, grad_key, grad_value, plan.by_keys,
        plan.num_before, num_tokens, *scales, H=heads, G=heads // key_heads, D=dim, BM=sizes.queries,
        BN=sizes.keys, ATOMIC=tuning.is_atomic, STAGES=sizes.stages, num_warps=sizes.warps,
        num_stages=sizes.stages,
    )  # fmt: skip
    if tuning.is_atomic:
        return grad_query.to(query.dtype), grad_key, grad_value
    sizes = tuning.by_queries
    queries_kernel[(heads, len(plan.by_queries))](
        query, key, value, grad_out, lse, delta, grad_query, plan.by_queries, plan.ranges, plan.num_before,
        num_tokens, *scales, H=heads, G=heads // key_heads, D=dim, BM=sizes.queries, BN=sizes.keys,
        STAGES=sizes.stages, num_warps=sizes.warps, num_stages=sizes.stages,
    )  # fmt: skip
    return grad_query, grad_key, grad_value
