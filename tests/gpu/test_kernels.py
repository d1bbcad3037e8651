"""Single kernels on a GPU: flash attention along a tree, and which norms are fused."""

import pytest
import torch

from tests.engines.models import qwen3
from tests.gpu.device import DEVICE
from tests.training.policies import LORA
from tests.training.test_attention import DEEP, gap
from tests.training.test_flash import run
from tests.training.test_norms import FUSED
from turnwise.training import hopper
from turnwise.training.flash import FlashTreeAttention, plan_flash
from turnwise.training.hopper import HopperTreeAttention, plan_hopper
from turnwise.training.norms import FusedNorm
from turnwise.training.policy import Policy

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="these kernels are a GPU's own")


@pytest.mark.parametrize("num_before", [0, 70])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_attention_along_a_tree_is_exact_up_to_rounding(dtype: torch.dtype, num_before: int) -> None:
    found, exact = run(DEEP, num_before, dtype, torch.device(DEVICE))
    assert gap(found, exact) < 0.15


@pytest.mark.parametrize("num_before", [0, 70])
@pytest.mark.parametrize("backward", ["triton", "cudnn"])
@pytest.mark.parametrize("dim", [64, 128])
def test_hopper_kernels_agree_with_flash_attention(
    dim: int, backward: str, num_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = torch.device(DEVICE)
    if torch.cuda.get_device_capability(device)[0] != 9:
        pytest.skip("these kernels are for Hopper GPUs")
    monkeypatch.setattr(hopper, "BACKWARD", backward)
    found, exact = (hopper_run(kind, dim, num_before, device) for kind in ("hopper", "flash"))
    assert gap(found, exact) < 0.15


def hopper_run(kind: str, dim: int, num_before: int, device: torch.device) -> list[torch.Tensor]:
    """Output and gradients of tokens drawn from one seed."""
    generator = torch.Generator().manual_seed(0)
    size, segments = DEEP.segments[-1].end, DEEP.segments

    def draw(count: int, heads: int) -> torch.Tensor:
        drawn = torch.randn((count, heads, dim), generator=generator)
        return drawn.to(device, torch.bfloat16).requires_grad_()

    inputs = [draw(size, 6), draw(size, 2), draw(size, 2)]
    before = [draw(num_before, 2), draw(num_before, 2)] if num_before else []
    grad_out = draw(size, 6).detach()
    if kind == "hopper":
        plan = plan_hopper(segments, num_before, device)
        out = HopperTreeAttention.apply(*inputs, plan, 0.1, *before)  # type: ignore[no-untyped-call]
    else:
        rows = plan_flash(segments, num_before, device)
        out = FlashTreeAttention.apply(*inputs, rows, 0.1, *before)  # type: ignore[no-untyped-call]
    return [out.detach(), *torch.autograd.grad(out, [*inputs, *before], grad_out)]


@pytest.mark.parametrize("kernels", ["plain", "fused"])
def test_the_recipe_says_whether_norms_are_fused(kernels: str) -> None:
    policy = Policy(qwen3(), LORA.model_copy(update={"kernels": kernels}), device=DEVICE)
    count = sum(isinstance(each, FusedNorm) for each in policy.model.modules())
    assert count == (FUSED["qwen3"][1] if kernels == "fused" else 0)
