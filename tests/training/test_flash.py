"""Attention along a tree in packed rows: the calls per depth, their merging and their gradients."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.training.trees import CPU, DEEP, draw, gap, masked_attention, tree_of
from turnwise.training.kernels import flash
from turnwise.training.kernels.flash import FlashTreeAttention, PackedRows, can_flash, plan_flash
from turnwise.training.kernels.partial_attention import backward_piece, forward_piece
from turnwise.training.packing.tree import Tree

Spans = tuple[PackedRows, PackedRows]
SCALE = 0.3


def heads_first(tensor: Tensor, num_heads: int) -> Tensor:
    """[n, K, D] as [1, H, n, D]."""
    return tensor.repeat_interleave(num_heads // tensor.shape[1], 1).transpose(0, 1)[None]


def slices(rows: Spans) -> list[tuple[slice, slice]]:
    """The queries and keys of every row."""
    queries, keys = ([slice(*pair) for pair in itertools.pairwise(row.bounds.tolist())] for row in rows)
    assert max(query.stop - query.start for query in queries) == rows[0].longest
    assert max(key.stop - key.start for key in keys) == rows[1].longest
    return list(zip(queries, keys, strict=True))


def forward_rows(
    query: Tensor, key: Tensor, value: Tensor, rows: Spans, **options: Any
) -> tuple[Tensor, Tensor]:
    """The result of CUDA's kernel, computed by the pieces that other devices use."""
    out, lse, heads = torch.empty_like(query), query.new_empty(query.shape[1], len(query)), query.shape[1]
    for at, seen in slices(rows):
        inputs = [heads_first(tensor, heads) for tensor in (query[at], key[seen], value[seen])]
        part_out, part_lse = forward_piece(*inputs, **options)
        out[at], lse[:, at] = part_out[0].transpose(0, 1), part_lse[0]
    return out, lse


def backward_rows(grad_out: Tensor, *saved: Any, **options: Any) -> tuple[Tensor, ...]:
    query, key, value, out, lse, rows = saved
    grads, heads = [torch.empty_like(tensor) for tensor in (query, key, value)], query.shape[1]
    for at, seen in slices(rows):
        by_query = [heads_first(tensor[at], heads) for tensor in (query, out, grad_out)]
        by_key = [heads_first(tensor[seen], heads) for tensor in (key, value)]
        parts = backward_piece(*by_query[:2], lse[None, :, at], by_query[2], *by_key, **options)
        for grad, part, place in zip(grads, parts, (at, seen, seen), strict=True):
            grad[place] = part[0].transpose(0, 1).unflatten(1, (grad.shape[1], -1)).sum(2)
    return tuple(grads)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """Replace CUDA's kernels; the number of rows of every call is recorded."""
    seen: dict[str, list[int]] = {"forward": [], "backward": []}

    def forward(*inputs: Any, **options: Any) -> Any:
        seen["forward"].append(len(slices(inputs[-1])))
        return forward_rows(*inputs, **options)

    def backward(*inputs: Any, **options: Any) -> Any:
        seen["backward"].append(len(slices(inputs[-1])))
        return backward_rows(*inputs, **options)

    monkeypatch.setattr(flash, "forward_rows", forward)
    monkeypatch.setattr(flash, "backward_rows", backward)
    return seen


def flash_gap(
    tree: Tree, num_before: int = 0, dtype: torch.dtype = torch.float64, device: torch.device = CPU
) -> float:
    """The largest difference from attention under the mask in fp64."""
    inputs = draw(tree, num_before=num_before, dtype=dtype, device=device)
    leaves = [tensor.clone().requires_grad_() for tensor in inputs[1:]]
    plan = plan_flash(tree.segments, num_before, device)
    out = FlashTreeAttention.apply(*leaves[:3], plan, SCALE, *leaves[3:])  # type: ignore[no-untyped-call]
    found = [out.detach(), *torch.autograd.grad(out, leaves, inputs[0])]
    return gap(found, masked_attention(tree, inputs, SCALE))


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("num_before", [0, 70])
def test_attention_is_exact_for_a_deep_tree(num_before: int) -> None:
    assert flash_gap(DEEP, num_before) < 1e-12


@pytest.mark.usefixtures("calls")
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), min_size=1, max_size=8))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_attention_is_exact_for_any_tree(lengths: list[tuple[int, int]]) -> None:
    assert flash_gap(tree_of(lengths)) < 1e-12


@pytest.mark.parametrize("num_before", [0, 70])
def test_segments_of_one_depth_are_one_call(num_before: int, calls: dict[str, list[int]]) -> None:
    """A root with 8 children of 8 leaves: segments by themselves, what sees the root, what sees a child."""
    lengths = [(15, 3) if leaf else (10, 8) if child else (0, 18) for child in range(8) for leaf in range(8)]
    tree = tree_of(lengths)
    assert len(tree.segments) == 1 + 8 + 64
    assert flash_gap(tree, num_before) < 1e-12
    expected = [73, 1, 8, *([1] if num_before else [])]  # rows per call
    assert calls == {"forward": expected, "backward": expected}


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_flash_attention_is_only_for_gpus(device: str) -> None:
    assert not can_flash(torch.empty(1, 2, 3, 64, device=device, dtype=torch.bfloat16))
