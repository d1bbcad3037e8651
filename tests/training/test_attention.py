"""Attention along a tree is attention under the tree's mask, in values and in gradients."""

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.training.drawn import GIVEN, family, sample
from turnwise.training.kernels import attention, partial_attention
from turnwise.training.kernels.attention import SHORT, AttentionPlan
from turnwise.training.kernels.prefix import Prefix
from turnwise.training.packing.layout import shared
from turnwise.training.packing.tree import Tree

CPU = torch.device("cpu")


def mask_of(tree: Tree) -> Tensor:
    size = tree.segments[-1].end
    seen = torch.zeros(size, size, dtype=torch.bool)
    for segment in tree.segments:
        own = slice(segment.start, segment.end)
        seen[own, own] = torch.ones(segment.length, segment.length).tril().bool()
        seen[segment.end : segment.stop, own] = True
    return seen


def run(
    tree: Tree, dtype: torch.dtype, *, heads: tuple[int, int] = (6, 2), is_tree: bool = True
) -> list[Tensor]:
    """Output and gradients of queries, keys and values drawn from one seed."""
    generator = torch.Generator().manual_seed(0)
    size = tree.segments[-1].end

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    # heads inside tokens in memory, as models have them
    inputs = [
        draw(1, size, count, 16).transpose(1, 2).requires_grad_() for count in (heads[0], *heads[1:] * 2)
    ]
    if is_tree:
        plan = AttentionPlan(tree, CPU)
        out, _ = attention.forward(torch.nn.Module(), *inputs, None, scaling=0.5, tree_plan=plan)
    else:
        plain = torch.nn.functional.scaled_dot_product_attention
        out = plain(*inputs, attn_mask=mask_of(tree), scale=0.5, enable_gqa=True).transpose(1, 2)
    grads = torch.autograd.grad(out, inputs, draw(*out.shape))
    return [out.detach(), *grads]


def gap(ones: list[Tensor], others: list[Tensor]) -> float:
    return max(
        (one.double() - other.double()).abs().max().item() for one, other in zip(ones, others, strict=True)
    )


def tree_of(lengths: list[list[int]]) -> Tree:
    """Each sample: how much it keeps of the one before it, and how much it adds."""
    source, ids, samples = random.Random(0), [], []
    for kept, added in lengths:
        ids = [*ids[:kept], *(source.randrange(10**6) for _ in range(added))]
        samples.append(sample((GIVEN, list(ids))))
    tree = shared(samples, min_shared=1).tree
    assert tree is not None
    return tree


@pytest.fixture(params=["fused", "products"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "products":
        monkeypatch.setattr(partial_attention, "_kernel", lambda query: "products")


FAMILY = shared(family()).tree
assert FAMILY is not None
DEEP = tree_of(
    [[0, 300], [250, 200], [400, 5], [402, 1], [402, 150], [100, 130], [0, 3], [1, 2], [0, 5], [0, 6]]
)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("tree", [FAMILY, DEEP], ids=["family", "deep"])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (3, 1)])
def test_it_is_attention_under_the_trees_mask(tree: Tree, heads: tuple[int, int]) -> None:
    exact = run(tree, torch.float64, heads=heads, is_tree=False)
    assert gap(run(tree, torch.float64, heads=heads), exact) < 1e-12
    assert gap(run(tree, torch.float32, heads=heads), exact) < 5e-5


@pytest.mark.usefixtures("kernel")
def test_half_precision_is_as_near_as_plain_attention_in_it() -> None:
    exact = run(DEEP, torch.float64, is_tree=False)
    plain = gap(run(DEEP, torch.bfloat16, is_tree=False), exact)
    assert gap(run(DEEP, torch.bfloat16), exact) < 2 * plain


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_keys_and_values_from_outside_stand_before_the_whole_row(dtype: torch.dtype) -> None:
    """The root of a tree is cut off: the rest attends to it as given, and its gradients are the whole's."""
    generator = torch.Generator().manual_seed(0)
    size = DEEP.segments[-1].end

    def draw(count: int, heads: int) -> Tensor:
        return torch.randn((1, heads, count, 16), generator=generator, dtype=torch.float64)

    query, key, value, before = draw(size, 6), draw(size, 2), draw(size, 2), (draw(70, 2), draw(70, 2))
    grad_out = draw(size, 6).transpose(1, 2)
    module = torch.nn.Module()
    prefix = Prefix({module: tuple(tensor.to(dtype).requires_grad_() for tensor in before)})
    own = [tensor.to(dtype).requires_grad_() for tensor in (query, key, value)]
    plan = AttentionPlan(DEEP, CPU, prefix=prefix)
    out, _ = attention.forward(module, *own, None, tree_plan=plan)
    found = torch.autograd.grad(out, [*own, *prefix.layers[module]], grad_out.to(dtype))

    exact = [tensor.requires_grad_() for tensor in (query, key, value, *before)]
    whole = [torch.cat([exact[3], exact[1]], 2), torch.cat([exact[4], exact[2]], 2)]
    mask = torch.cat([torch.ones(size, 70, dtype=torch.bool), mask_of(DEEP)], 1)
    plain = torch.nn.functional.scaled_dot_product_attention
    exact_out = plain(query, *whole, attn_mask=mask, enable_gqa=True).transpose(1, 2)
    expected = torch.autograd.grad(exact_out, exact, grad_out)
    close = {torch.float64: 1e-12, torch.float32: 5e-5, torch.bfloat16: 0.15}[dtype]
    assert gap([out, *found], [exact_out, *expected]) < close


def test_short_and_long_segments_and_inner_ones_are_all_in_these_trees() -> None:
    plan = AttentionPlan(DEEP, CPU)
    assert plan.long
    assert plan.inner
    assert any(len(bucket.index_SL) > 1 and bucket.is_real_SL is not None for bucket in plan.buckets)
    lengths = [segment.length for segment in DEEP.segments]
    assert min(lengths) < SHORT <= max(lengths)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)).map(list), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_any_tree_is_attended_to_exactly(lengths: list[list[int]]) -> None:
    tree = tree_of(lengths)
    assert gap(run(tree, torch.float64), run(tree, torch.float64, is_tree=False)) < 1e-12


def test_what_a_token_does_not_see_has_no_part_in_it() -> None:
    """Turning every other leaf into NaN changes nothing on a path: no weight is merely small."""
    plan = AttentionPlan(DEEP, CPU)
    size = DEEP.segments[-1].end
    seen = mask_of(DEEP)[-1]
    query, key, value = (torch.randn(1, 2, size, 16) for _ in range(3))
    module = torch.nn.Module()
    before, _ = attention.forward(module, query, key, value, None, tree_plan=plan)
    value[:, :, ~seen] = torch.nan
    after, _ = attention.forward(module, query, key, value, None, tree_plan=plan)
    assert before[:, -1].equal(after[:, -1])


@pytest.mark.parametrize("option", ["sliding_window", "softcap", "s_aux", "position_bias"])
def test_attention_of_another_kind_is_refused(option: str) -> None:
    inputs: list[Any] = [torch.zeros(1, 2, FAMILY.segments[-1].end, 8)] * 3
    with pytest.raises(ValueError, match=option):
        attention.forward(
            torch.nn.Module(), *inputs, None, tree_plan=AttentionPlan(FAMILY, CPU), **{option: torch.ones(1)}
        )
