"""Attention along a tree by rows: the pieces, their merging and their gradients, and CUDA's own kernels."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.training.test_attention import DEEP, gap, mask_of, tree_of
from turnwise.training.kernels import flash
from turnwise.training.kernels.flash import FlashTreeAttention, PackedRows, can_flash, plan_flash
from turnwise.training.kernels.partial_attention import backward_piece, forward_piece
from turnwise.training.packing.tree import Tree

CPU = torch.device("cpu")
Spans = tuple[PackedRows, PackedRows]


def heads_first(tensor: Tensor, num_heads: int) -> Tensor:
    """[n, K, D] as [1, H, n, D]."""
    return tensor.repeat_interleave(num_heads // tensor.shape[1], 1).transpose(0, 1)[None]


def each_row(rows: Spans) -> list[tuple[slice, slice]]:
    queries, keys = ([slice(*pair) for pair in itertools.pairwise(row.bounds.tolist())] for row in rows)
    assert max(query.stop - query.start for query in queries) == rows[0].longest
    assert max(key.stop - key.start for key in keys) == rows[1].longest
    return list(zip(queries, keys, strict=True))


def forward_rows(
    query: Tensor, key: Tensor, value: Tensor, rows: Spans, **options: Any
) -> tuple[Tensor, Tensor]:
    """What CUDA's kernel gives, by the pieces of other devices."""
    out, lse, heads = torch.empty_like(query), query.new_empty(query.shape[1], len(query)), query.shape[1]
    for at, seen in each_row(rows):
        inputs = [heads_first(tensor, heads) for tensor in (query[at], key[seen], value[seen])]
        part_out, part_lse = forward_piece(*inputs, **options)
        out[at], lse[:, at] = part_out[0].transpose(0, 1), part_lse[0]
    return out, lse


def backward_rows(
    grad_out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    rows: Spans,
    **options: Any,
) -> tuple[Tensor, ...]:
    grads, heads = [torch.empty_like(tensor) for tensor in (query, key, value)], query.shape[1]
    for at, seen in each_row(rows):
        at_queries = [heads_first(tensor[at], heads) for tensor in (query, out)]
        at_keys = [heads_first(tensor[seen], heads) for tensor in (key, value)]
        parts = backward_piece(
            *at_queries, lse[None, :, at], heads_first(grad_out[at], heads), *at_keys, **options
        )
        for grad, part, place in zip(grads, parts, (at, seen, seen), strict=True):
            by_token = part[0].transpose(0, 1)
            grad[place] = by_token.unflatten(1, (grad.shape[1], -1)).sum(2)
    return tuple(grads)


@pytest.fixture
def by_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flash, "forward_rows", forward_rows)
    monkeypatch.setattr(flash, "backward_rows", backward_rows)


def run(
    tree: Tree, num_before: int, dtype: torch.dtype, device: torch.device
) -> tuple[list[Tensor], list[Tensor]]:
    """Output and gradients, by rows and by the mask."""
    generator = torch.Generator().manual_seed(0)
    size = tree.segments[-1].end

    def draw(count: int, heads: int) -> Tensor:
        drawn = torch.randn((count, heads, 16), generator=generator, dtype=torch.float64)
        return drawn.to(dtype).to(device).requires_grad_()

    own = [draw(size, 6), draw(size, 2), draw(size, 2)]
    before = [draw(num_before, 2), draw(num_before, 2)] if num_before else []
    plan = plan_flash(tree.segments, num_before, device)
    out = FlashTreeAttention.apply(*own, plan, 0.3, *before)  # type: ignore[no-untyped-call]
    grad_out = draw(size, 6).detach()
    found = torch.autograd.grad(out, [*own, *before], grad_out)

    exact = [tensor.detach().double().cpu().requires_grad_() for tensor in (*own, *before)]
    keys = [
        torch.cat([tensor, exact[place]]) for tensor, place in zip(exact[3:], (1, 2), strict=False)
    ] or exact[1:]
    mask = torch.cat([torch.ones(size, num_before, dtype=torch.bool), mask_of(tree)], 1)
    plain = torch.nn.functional.scaled_dot_product_attention
    inputs = [tensor.transpose(0, 1)[None] for tensor in (exact[0], *keys)]
    exact_out = plain(*inputs, attn_mask=mask, scale=0.3, enable_gqa=True)[0].transpose(0, 1)
    expected = torch.autograd.grad(exact_out, exact, grad_out.double().cpu())
    return [tensor.cpu() for tensor in (out, *found)], [exact_out, *expected]


@pytest.mark.usefixtures("by_pieces")
@pytest.mark.parametrize("num_before", [0, 70])
def test_a_deep_tree_is_attended_to_exactly(num_before: int) -> None:
    assert gap(*run(DEEP, num_before, torch.float64, CPU)) < 1e-12


@pytest.mark.parametrize("num_before", [0, 70])
def test_segments_of_one_depth_are_one_call(num_before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A root with 8 children of 8 leaves each: all by themselves, what sees the root, what sees a child."""
    lengths = [[15, 3] if leaf else [10, 8] if child else [0, 18] for child in range(8) for leaf in range(8)]
    tree = tree_of(lengths)
    assert len(tree.segments) == 1 + 8 + 64
    calls: dict[str, list[int]] = {"forward": [], "backward": []}

    def forward(query: Tensor, key: Tensor, value: Tensor, rows: Spans, **options: Any) -> Any:
        calls["forward"].append(len(each_row(rows)))
        return forward_rows(query, key, value, rows, **options)

    def backward(*inputs: Any, **options: Any) -> Any:
        calls["backward"].append(len(each_row(inputs[-1])))
        return backward_rows(*inputs, **options)

    monkeypatch.setattr(flash, "forward_rows", forward)
    monkeypatch.setattr(flash, "backward_rows", backward)
    assert gap(*run(tree, num_before, torch.float64, CPU)) < 1e-12
    expected = [73, 1, 8, *([1] if num_before else [])]  # rows of each call
    assert calls == {"forward": expected, "backward": expected}


def test_any_tree_is_attended_to_exactly() -> None:
    @given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)).map(list), min_size=1, max_size=8))
    @settings(max_examples=20, deadline=None)
    def attend(lengths: list[list[int]]) -> None:
        assert gap(*run(tree_of(lengths), 0, torch.float64, CPU)) < 1e-12

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flash, "forward_rows", forward_rows)
        patch.setattr(flash, "backward_rows", backward_rows)
        attend()


def test_it_is_for_halves_on_a_gpu_alone() -> None:
    assert not can_flash(torch.empty(1, 2, 3, 64, dtype=torch.bfloat16))
    assert not can_flash(torch.empty(1, 2, 3, 64, device="meta", dtype=torch.bfloat16))
