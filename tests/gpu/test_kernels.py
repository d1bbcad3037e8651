"""Single kernels on a GPU: flash attention along a tree, and which norms are fused."""

import pytest
import torch

from tests.engines.models import qwen3
from tests.gpu.device import DEVICE
from tests.training.policies import LORA
from tests.training.test_attention import DEEP, gap
from tests.training.test_flash import run
from tests.training.test_norms import FUSED
from turnwise.training.norms import FusedNorm
from turnwise.training.policy import Policy

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="these kernels are a GPU's own")


@pytest.mark.parametrize("num_before", [0, 70])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_attention_along_a_tree_is_exact_up_to_rounding(dtype: torch.dtype, num_before: int) -> None:
    found, exact = run(DEEP, num_before, dtype, torch.device(DEVICE))
    assert gap(found, exact) < 0.15


@pytest.mark.parametrize("kernels", ["plain", "fused"])
def test_the_recipe_says_whether_norms_are_fused(kernels: str) -> None:
    policy = Policy(qwen3(), LORA.model_copy(update={"kernels": kernels}), device=DEVICE)
    count = sum(isinstance(each, FusedNorm) for each in policy.model.modules())
    assert count == (FUSED["qwen3"][1] if kernels == "fused" else 0)
