"""Attention along a packed tree by Triton kernels of our own, on Hopper GPUs; other GPUs use `flash`.

Tensors are token by token, [N, heads, dim], as in `flash`. Tables list the work of every kernel program: a
query block has the key ranges on its path, a key block has the one range of queries that sees it. Blocks with
the most work come first, so that all of the GPU finishes at about the same time.

cuDNN's backward kernels are faster than ours once they run (369 against 309 TFLOP/s on an H200), but cuDNN
builds a plan for every new shape, which takes 0.1 to 0.6 s, and real episodes bring new shapes in every
micro-batch. A Triton kernel is compiled once for a model's heads and then takes any lengths.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from turnwise.models.devices import to_device
from turnwise.training.kernels.flash import Range
from turnwise.training.packing.tree import TreeSegment

logger = logging.getLogger(__name__)

MAX_TRIAL_GAP = 0.05
"""Relative to the largest value. Rounding to half precision stays below 0.01; a wrong kernel is far above."""
HOPPER = 9
"""The major compute capability that the block sizes are tuned for."""
DIMS = (64, 128)
"""Channels per head that the kernels were measured with."""
ALIGNED = 4
"""Tables start at multiples of this many int32: Triton compiles a kernel again for an unaligned pointer."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a kernel divides its work, and how it runs on a multiprocessor."""

    queries: int
    keys: int
    warps: int
    stages: int


# The fastest of the sizes tried on an H200, with 64 and 128 channels per head.
FORWARD = Blocks(128, 128, 8, 3)
BY_KEYS = Blocks(64, 128, 8, 2)
BY_QUERIES = Blocks(128, 64, 8, 3)
DELTA_ROWS = 64


@dataclass(frozen=True, slots=True)
class TritonPlan:
    """The tables of one packed row; built once per forward pass, read by every layer."""

    num_before: int
    ranges: Tensor
    """int32 [R, 2]: key ranges that query blocks see in full."""
    forward: Tensor
    """int32 [B, 5]: first query, end of its segment, first key of its own run, first range, end of ranges."""
    by_queries: Tensor
    """The same for the gradients of queries, whose blocks may differ in size."""
    by_keys: Tensor
    """int32 [B, 4]: first key, end of its segment, first query that sees it, end of those queries."""


@dataclass(frozen=True, slots=True)
class Path:
    """What the queries of one segment see."""

    segment: TreeSegment
    own: int
    """Start of the run of keys that ends with the segment itself: seen causally."""
    ranges: tuple[Range, ...]
    """Earlier runs of keys, seen in full."""


def plan_triton(segments: Sequence[TreeSegment], num_before: int, device: torch.device) -> TritonPlan:
    paths = _paths(segments, num_before)
    tables: list[Sequence[tuple[int, ...]]] = [
        [one_range for path in paths for one_range in path.ranges] or [(0, 0)],
        _query_blocks(paths, num_before, FORWARD.queries),
        _query_blocks(paths, num_before, BY_QUERIES.queries),
        _key_blocks(segments, num_before, BY_KEYS.keys),
    ]
    flat: list[int] = []
    starts = []
    for table in tables:
        flat += [0] * (-len(flat) % ALIGNED)
        starts.append(len(flat))
        flat += [number for row in table for number in row]
    packed = to_device(torch.tensor(flat, dtype=torch.int32), device)
    parts = [
        packed[start : start + len(table) * len(table[0])].view(len(table), -1)
        for start, table in zip(starts, tables, strict=True)
    ]
    return TritonPlan(num_before, *parts)


def _paths(segments: Sequence[TreeSegment], num_before: int) -> list[Path]:
    """Return the key ranges on every segment's path; adjacent ranges are joined."""
    open_path: list[TreeSegment] = []
    paths = []
    for segment in segments:
        while open_path and open_path[-1].stop <= segment.start:
            open_path.pop()
        runs: list[Range] = [(0, num_before)] if num_before else []
        for ancestor in (*open_path, segment):
            start, end = ancestor.start + num_before, ancestor.end + num_before
            if runs and runs[-1][1] == start:
                start = runs.pop()[0]
            runs.append((start, end))
        paths.append(Path(segment, runs[-1][0], tuple(runs[:-1])))
        open_path.append(segment)
    return paths


def _query_blocks(paths: Sequence[Path], num_before: int, size: int) -> list[tuple[int, ...]]:
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


def _key_blocks(segments: Sequence[TreeSegment], num_before: int, size: int) -> list[tuple[int, ...]]:
    num_tokens = segments[-1].end
    blocks = [(row, num_before, 0, num_tokens) for row in range(0, num_before, size)]
    for segment in segments:
        blocks += [
            (row + num_before, segment.end + num_before, row, segment.stop)
            for row in range(segment.start, segment.end, size)
        ]
    return sorted(blocks, key=lambda block: block[2] - block[3])


def tree_forward(
    query: Tensor, key: Tensor, value: Tensor, plan: TritonPlan, scale: float
) -> tuple[Tensor, Tensor]:
    """Return output [N, H, D] and log-sum-exp [H, N]; keys and values are [P + N, K, D]."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    from turnwise.training.kernels.triton_kernels import forward_kernel

    (num_tokens, heads, dim), key_heads, blocks = query.shape, key.shape[1], FORWARD
    out = torch.empty_like(query)
    lse = query.new_empty((heads, num_tokens), dtype=torch.float32)
    shape, strides = [len(key), key_heads * dim], [key_heads * dim, 1]
    keys, values = (
        TensorDescriptor(tensor, shape, strides, [blocks.keys, dim]) for tensor in (key, value)
    )  # on the host: a descriptor made by the kernel needs a workspace
    forward_kernel[(heads, plan.forward.shape[0])](
        query, keys, values, out, lse, plan.forward, plan.ranges, plan.num_before, num_tokens,
        scale * math.log2(math.e), H=heads, G=heads // key_heads, D=dim, BM=blocks.queries, BN=blocks.keys,
        STAGES=blocks.stages, num_warps=blocks.warps, num_stages=blocks.stages,
    )  # fmt: skip
    return out, lse


def tree_backward(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    plan: TritonPlan,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries [N, H, D] and of keys and values [P + N, K, D]."""
    from turnwise.training.kernels.triton_kernels import delta_kernel, keys_kernel, queries_kernel

    (num_tokens, heads, dim), key_heads = query.shape, key.shape[1]
    grad_query, grad_key, grad_value, delta = (
        torch.empty_like(tensor) for tensor in (query, key, value, lse)
    )
    delta_kernel[(heads, -(-num_tokens // DELTA_ROWS))](
        out, grad_out, delta, num_tokens, H=heads, D=dim, BM=DELTA_ROWS
    )
    inputs = (query, key, value, grad_out, lse, delta)
    numbers = (plan.num_before, num_tokens, scale, scale * math.log2(math.e))
    blocks = BY_KEYS
    keys_kernel[(key_heads, plan.by_keys.shape[0])](
        *inputs, grad_key, grad_value, plan.by_keys, *numbers, H=heads, G=heads // key_heads, D=dim,
        BM=blocks.queries, BN=blocks.keys, STAGES=blocks.stages, num_warps=blocks.warps,
        num_stages=blocks.stages,
    )  # fmt: skip
    blocks = BY_QUERIES
    queries_kernel[(heads, plan.by_queries.shape[0])](
        *inputs, grad_query, plan.by_queries, plan.ranges, *numbers, H=heads, G=heads // key_heads, D=dim,
        BM=blocks.queries, BN=blocks.keys, STAGES=blocks.stages, num_warps=blocks.warps,
        num_stages=blocks.stages,
    )  # fmt: skip
    return grad_query, grad_key, grad_value


class TritonTreeAttention(torch.autograd.Function):
    """Attention of [N, H, D] queries on [N, K, D] keys and values.

    `before`: keys and values [P, K, D] of the P tokens before the row, or nothing.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, plan: TritonPlan, scale: float, *before: Tensor
    ) -> Tensor:
        query = query.contiguous()
        out, lse = tree_forward(query, *_with_before(key, value, before), plan, scale)
        ctx.save_for_backward(query, key, value, out, lse, *before)
        ctx.plan, ctx.scale = plan, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, out, lse, *before = ctx.saved_tensors
        plan: TritonPlan = ctx.plan
        keys, values = _with_before(key, value, before)
        grad_query, *of_keys = tree_backward(
            grads[0].contiguous(), query, keys, values, out, lse, plan, ctx.scale
        )
        if not before:
            return grad_query, *of_keys, None, None
        num_before = plan.num_before
        of_before = (
            of_key[:num_before].to(first.dtype) for of_key, first in zip(of_keys, before, strict=True)
        )
        return grad_query, *(of_key[num_before:] for of_key in of_keys), None, None, *of_before


def _with_before(key: Tensor, value: Tensor, before: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return keys and values of the whole context, [P + N, K, D]."""
    if not before:
        return key.contiguous(), value.contiguous()
    keys, values = (
        torch.cat([first.to(own.dtype), own]) for first, own in zip(before, (key, value), strict=True)
    )
    return keys, values


def can_triton(query: Tensor, key: Tensor) -> bool:
    """Return whether these kernels take [1, H, N, D] queries on [1, K, N, D] keys on this machine."""
    if query.device.type != "cuda":
        return False
    return _works(query.device, query.dtype, query.shape[1], key.shape[1], query.shape[3])


@cache
def _works(device: torch.device, dtype: torch.dtype, heads: int, key_heads: int, dim: int) -> bool:
    """Compile the kernels for these heads and compare them with plain attention once."""
    if dim not in DIMS or dtype not in (torch.float16, torch.bfloat16):
        return False
    if torch.cuda.get_device_capability(device)[0] != HOPPER:
        return False
    try:
        gap = trial_gap(device, dtype, heads, key_heads, dim)
    except torch.OutOfMemoryError:  # says nothing about the kernels: the update is retried, and so is this
        raise
    except Exception as error:  # noqa: BLE001 (Triton's compiler and driver raise errors of many kinds)
        _warn_once(f"{type(error).__name__}: {error}")
        return False
    if not gap < MAX_TRIAL_GAP:
        _warn_once(f"they differ from plain attention by {gap:.3g} with {heads}/{key_heads} heads of {dim}")
        return False
    return True


@cache
def _warn_once(reason: str) -> None:
    logger.warning("attention runs on PyTorch's flash kernels, ours in Triton do not work here: %s", reason)


@torch.no_grad()
def trial_gap(device: torch.device, dtype: torch.dtype, heads: int, key_heads: int, dim: int) -> float:
    """Return the largest relative difference to plain attention on a small tree: output and all gradients.

    The gradients are written out, not taken by autograd: a checkpoint around the caller would count what
    autograd saves, and find nothing of it when it recomputes the layer.
    """
    num_before = 40
    segments = [TreeSegment(0, 150, 350), TreeSegment(150, 250, 250), TreeSegment(250, 350, 350)]
    num_tokens = segments[-1].end
    generator = torch.Generator().manual_seed(0)  # the global one belongs to the run
    query, grad_out, key, value = (
        torch.randn((length, count, dim), generator=generator).to(device, dtype)
        for length, count in ((num_tokens, heads),) * 2 + ((num_before + num_tokens, key_heads),) * 2
    )
    plan, scale = plan_triton(segments, num_before, device), dim**-0.5
    out, lse = tree_forward(query, key, value, plan, scale)
    actual = (out, *tree_backward(grad_out, query, key, value, out, lse, plan, scale))

    is_seen = torch.ones(num_tokens, num_before + num_tokens, dtype=torch.bool).tril_(num_before)
    is_seen[250:, num_before + 150 : num_before + 250] = False
    group = heads // key_heads
    q, g = (tensor.float().transpose(0, 1) for tensor in (query, grad_out))
    k, v = (tensor.float().transpose(0, 1).repeat_interleave(group, 0) for tensor in (key, value))
    scores = (q @ k.mT * scale).masked_fill_(~is_seen.to(device), -math.inf)
    weights = scores.softmax(-1)
    plain = weights @ v
    grad_scores = weights * (g @ v.mT - (g * plain).sum(-1, keepdim=True)) * scale
    of_keys = (gradient.unflatten(0, (-1, group)).sum(1) for gradient in (grad_scores.mT @ q, weights.mT @ g))
    expected = (tensor.transpose(0, 1) for tensor in (plain, grad_scores @ k, *of_keys))
    pairs = zip(actual, expected, strict=True)
    return max(float((one.float() - other).abs().max() / other.abs().max()) for one, other in pairs)
