"""Weights are passed from a GPU through page-locked memory."""

import asyncio

import pytest
import torch

from tests.gpu.device import DEVICE
from turnwise.engines.weight_transfer import PinnedBlocks, lay_out
from turnwise.models.page_locking import LockablePages

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="page-locked memory is CUDA's")


async def test_a_block_written_twice_from_the_gpu_is_read_page_locked() -> None:
    reader = PinnedBlocks()
    block = None
    for seed in range(2):
        torch.manual_seed(seed)
        weights = {name: torch.randn(300, 200, device=DEVICE).bfloat16() for name in ("first", "second")}
        block = lay_out(weights, block)
        async with block.offered() as path:
            tensors = dict(await asyncio.to_thread(reader.read, path, block.table))
        for name, tensor in tensors.items():
            assert torch.equal(tensor.to(DEVICE), weights[name])
    assert block is not None
    block.close()


def test_memory_that_was_unmapped_while_locked_can_be_locked_at_the_same_address() -> None:
    addresses = []
    for _ in range(8):
        pages = LockablePages(-1, 3 * 2**20)
        pages.lock()
        tensor = torch.frombuffer(pages, dtype=torch.float32)
        del pages  # the tensor keeps the memory mapped and locked
        assert tensor.is_pinned()
        addresses.append(tensor.data_ptr())
        del tensor
    assert len(set(addresses)) < len(addresses), "the kernel handed an address out again"
