"""Weights are passed from a GPU through page-locked memory."""

import pytest
import torch

from tests.gpu.device import DEVICE
from turnwise.engines.weight_transfer import PinnedBlocks, lay_out

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="page-locked memory is CUDA's")


def test_a_block_written_twice_from_the_gpu_is_read_page_locked() -> None:
    reader = PinnedBlocks()
    block = None
    for seed in range(2):
        torch.manual_seed(seed)
        weights = {name: torch.randn(300, 200, device=DEVICE).bfloat16() for name in ("first", "second")}
        block = lay_out(weights, block)
        for name, tensor in reader.read(block.path, block.table):
            assert torch.equal(tensor.to(DEVICE), weights[name])
    assert block is not None
    block.close()
