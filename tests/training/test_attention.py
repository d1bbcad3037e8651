"""Attention along a tree equals attention under the tree's mask, in values and in gradients."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.training.samples import family
from tests.training.trees import CPU, DEEP, draw, gap, mask_of, masked_attention, tree_of
from turnwise.training.kernels import attention, partial_attention
from turnwise.training.kernels.attention import SHORT, AttentionPlan
from turnwise.training.kernels.prefix import Prefix
from turnwise.training.packing.layout import shared
from turnwise.training.packing.tree import Tree

FAMILY = shared(family()).tree
assert FAMILY is not None
SCALE = 0.5


def attend(tree: Tree, inputs: list[Tensor], dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Output and gradients; keys and values before the tree come from a prefix."""
    grad_out, *leaves = (tensor.to(dtype, copy=True) for tensor in inputs)
    leaves = [leaf.requires_grad_() for leaf in leaves]
    query, key, value, *before = (leaf.transpose(0, 1)[None] for leaf in leaves)
    module = torch.nn.Module()
    prefix = Prefix({module: (before[0], before[1])}) if before else None
    plan = AttentionPlan(tree, CPU, prefix=prefix)
    out, _ = attention.forward(module, query, key, value, None, scaling=SCALE, tree_plan=plan)
    outside = [*prefix.layers[module]] if prefix else []
    grads = torch.autograd.grad(out[0], [*leaves[:3], *outside], grad_out)
    return [out[0].detach(), *grads[:3], *(grad[0].transpose(0, 1) for grad in grads[3:])]


@pytest.fixture(params=["fused", "products"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "products":
        monkeypatch.setattr(partial_attention, "_kernel", lambda query: "products")


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("tree", [FAMILY, DEEP], ids=["family", "deep"])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (3, 1)], ids=str)
def test_attention_along_a_tree_is_attention_under_its_mask(tree: Tree, heads: tuple[int, int]) -> None:
    inputs = draw(tree, heads)
    exact = masked_attention(tree, inputs, SCALE)
    assert gap(attend(tree, inputs), exact) < 1e-12
    assert gap(attend(tree, inputs, torch.float32), exact) < 5e-5


@pytest.fixture(scope="module")
def half_precision() -> tuple[list[Tensor], list[Tensor], float]:
    """Inputs, their exact attention, and how far plain attention in bf16 is from it: seconds on a CPU."""
    inputs = draw(DEEP, (3, 1))
    exact = masked_attention(DEEP, inputs, SCALE)
    return inputs, exact, gap(masked_attention(DEEP, inputs, SCALE, torch.bfloat16), exact)


@pytest.mark.usefixtures("kernel")
def test_half_precision_is_as_near_as_plain_attention_in_it(
    half_precision: tuple[list[Tensor], list[Tensor], float],
) -> None:
    inputs, exact, plain = half_precision
    assert gap(attend(DEEP, inputs, torch.bfloat16), exact) < 2 * plain


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    ("dtype", "close"),
    [(torch.float64, 1e-12), (torch.float32, 5e-5), (torch.bfloat16, 0.15)],
    ids=["fp64", "fp32", "bf16"],
)
def test_every_token_sees_the_keys_and_values_of_a_prefix(dtype: torch.dtype, close: float) -> None:
    inputs = draw(DEEP, num_before=70)
    assert gap(attend(DEEP, inputs, dtype), masked_attention(DEEP, inputs, SCALE)) < close


def test_the_deep_tree_has_short_long_and_inner_segments() -> None:
    plan = AttentionPlan(DEEP, CPU)
    assert plan.long
    assert plan.inner
    assert any(len(bucket.index_SL) > 1 and bucket.is_real_SL is not None for bucket in plan.buckets)
    lengths = [segment.length for segment in DEEP.segments]
    assert min(lengths) < SHORT <= max(lengths)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60)), min_size=1, max_size=8))
@settings(max_examples=20, deadline=None)
def test_attention_is_exact_for_any_tree(lengths: list[tuple[int, int]]) -> None:
    tree = tree_of(lengths)
    inputs = draw(tree)
    assert gap(attend(tree, inputs), masked_attention(tree, inputs, SCALE)) < 1e-12


def test_tokens_outside_its_path_have_no_effect_on_a_token() -> None:
    """NaN in every other leaf changes nothing: their weight is exactly 0, not merely small."""
    inputs = draw(DEEP)
    before = attend(DEEP, inputs)[0]
    inputs[3][~mask_of(DEEP)[-1]] = torch.nan
    assert attend(DEEP, inputs)[0][-1].equal(before[-1])


@pytest.mark.parametrize("option", ["sliding_window", "softcap", "s_aux", "position_bias"])
def test_attention_of_another_kind_is_rejected(option: str) -> None:
    inputs: list[Any] = [torch.zeros(1, 2, FAMILY.segments[-1].end, 8)] * 3
    plan = AttentionPlan(FAMILY, CPU)
    forward: Any = attention.forward
    with pytest.raises(ValueError, match=option):
        forward(torch.nn.Module(), *inputs, None, tree_plan=plan, **{option: torch.ones(1)})
