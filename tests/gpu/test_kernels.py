"""Single kernels on a GPU: attention along a tree by flash attention and by our kernels, and fused norms."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.engines.models import qwen3
from tests.gpu.device import DEVICE
from tests.training.policies import LORA
from tests.training.test_flash import flash_gap
from tests.training.test_norms import FUSED
from tests.training.trees import DEEP, draw, gap, masked_attention, tree_of
from turnwise.training.kernels import attention
from turnwise.training.kernels.attention import AttentionPlan
from turnwise.training.kernels.flash import FlashTreeAttention, plan_flash
from turnwise.training.kernels.norms import FusedNorm
from turnwise.training.kernels.triton_attention import HOPPER, TritonTreeAttention, can_triton, plan_triton
from turnwise.training.packing.tree import Tree, TreeSegment
from turnwise.training.policy.policy import Policy

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="these kernels need a GPU")
GPU = torch.device(DEVICE)

TREES = {
    "a deep tree": DEEP,
    "many short tails": tree_of([[0, 190], *([150, 30 + number % 7] for number in range(40))]),
    "one long row": Tree((TreeSegment(0, 2500, 2500),)),
    "rows that share nothing": tree_of([[0, 129], [0, 128], [0, 1], [0, 300]]),
    "a token at a time": tree_of([[0, 130], *([128, 1] for _ in range(5))]),
}
HEADS = {
    "one query head per key head": ((2, 2), 128, torch.bfloat16),
    "seven query heads per key head": ((14, 2), 64, torch.bfloat16),
    "float16": ((4, 2), 64, torch.float16),
}
"""Few, because every entry is compiled."""


@pytest.mark.parametrize("num_before", [0, 70])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_attention_along_a_tree_is_exact_up_to_rounding(dtype: torch.dtype, num_before: int) -> None:
    assert flash_gap(DEEP, num_before, dtype, GPU) < 0.15


@pytest.fixture
def hopper() -> None:
    if torch.cuda.get_device_capability(GPU)[0] != HOPPER:
        pytest.skip("our Triton kernels are for Hopper GPUs")


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("num_before", [0, 1, 70, 1100])
@pytest.mark.parametrize("dim", [64, 128])
@pytest.mark.parametrize("tree", TREES)
def test_triton_kernels_are_exact_up_to_rounding(tree: str, dim: int, num_before: int) -> None:
    check_triton(TREES[tree], (4, 2), dim, num_before, torch.bfloat16)


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("case", HEADS)
def test_triton_kernels_take_any_number_of_query_heads_per_key_head(case: str) -> None:
    heads, dim, dtype = HEADS[case]
    check_triton(DEEP, heads, dim, 70, dtype)


def check_triton(tree: Tree, heads: tuple[int, int], dim: int, num_before: int, dtype: torch.dtype) -> None:
    """Output and gradients are as near to attention in fp64 as those of flash attention."""
    inputs = draw(tree, heads, dim, num_before, dtype, GPU)
    exact = masked_attention(tree, inputs)
    ours = attend(TritonTreeAttention, plan_triton(tree.segments, num_before, GPU), inputs)
    flash = attend(FlashTreeAttention, plan_flash(tree.segments, num_before, GPU), inputs)
    for found, other, expected in zip(ours, flash, exact, strict=True):
        size = float(expected.abs().max())
        assert gap([found], [expected]) / size < max(0.01, 2 * gap([other], [expected]) / size)


def attend(kind: Any, plan: Any, inputs: list[Tensor]) -> list[Tensor]:
    grad_out, *rest = inputs
    leaves = [tensor.clone().requires_grad_() for tensor in rest]
    out = kind.apply(*leaves[:3], plan, leaves[0].shape[-1] ** -0.5, *leaves[3:])
    return [out.detach(), *torch.autograd.grad(out, leaves, grad_out)]


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize("dim", [64, 128])
def test_a_hopper_gpu_uses_the_triton_kernels(dim: int) -> None:
    query, key = (
        torch.randn(1, heads, 850, dim, device=GPU, dtype=torch.bfloat16, requires_grad=True)
        for heads in (4, 2)
    )
    assert can_triton(query, key)
    tree = Tree((TreeSegment(0, 850, 850),))
    out, _ = attention.forward(torch.nn.Module(), query, key, key, None, tree_plan=AttentionPlan(tree, GPU))
    node = out.grad_fn
    while node is not None and "TreeAttention" not in node.name():
        node = node.next_functions[0][0]
    assert node is not None
    assert node.name() == "TritonTreeAttentionBackward"


def test_heads_that_the_triton_kernels_do_not_take_run_on_flash_attention() -> None:
    query = torch.empty(1, 4, 8, 96, device=GPU, dtype=torch.bfloat16)
    assert not can_triton(query, query)
    single = torch.empty(1, 4, 8, 64, device=GPU)
    assert not can_triton(single, single)


@pytest.mark.parametrize("is_fused", [False, True])
def test_norms_are_fused_unless_that_is_off(is_fused: bool) -> None:
    policy = Policy(qwen3(), LORA, device=DEVICE, is_fused=is_fused)
    count = sum(isinstance(module, FusedNorm) for module in policy.model.modules())
    assert count == (FUSED["qwen3"][1] if is_fused else 0)
