"""An optimizer in host memory takes the same steps on a GPU as one in the GPU's memory."""

import pytest
import torch
from torch.nn import Parameter

from tests.gpu.device import DEVICE
from turnwise.training.update import offload
from turnwise.training.update.optimizer import Optimizer

SHAPES = {"matrix": (700, 900), "other": (513, 77), "bias": (900,)}


def parameters(dtype: torch.dtype) -> dict[str, Parameter]:
    generator = torch.Generator().manual_seed(0)
    return {
        name: Parameter(torch.randn(*shape, generator=generator).to(DEVICE, dtype))
        for name, shape in SHAPES.items()
    }


@pytest.mark.parametrize("piece", [2**12, 2**24])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_steps_from_host_memory_are_bit_identical(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, piece: int
) -> None:
    monkeypatch.setattr(offload, "PIECE", piece)
    named = [parameters(dtype), parameters(dtype)]
    optimizers = [
        Optimizer(each, {}, weight_decay=0.1, is_offloaded=is_offloaded)
        for each, is_offloaded in zip(named, (False, True), strict=True)
    ]
    for number in range(4):
        generator = torch.Generator().manual_seed(number)
        factors = {
            name: torch.randn(*shape, generator=generator).to(DEVICE) for name, shape in SHAPES.items()
        }
        for each, optimizer in zip(named, optimizers, strict=True):
            losses = [(each[name] * factor).float().square().mean() for name, factor in factors.items()]
            optimizer.learn(torch.stack(losses).sum())
            optimizer.step(optimizer.norms(), policy_rate=0.05)
    expected, found = (optimizer.tensors() for optimizer in optimizers)
    assert expected.keys() == found.keys()
    for name, tensor in found.items():
        assert tensor.device.type == "cpu", name
        assert tensor.equal(expected[name].cpu()), name
        if DEVICE == "cuda" and not name.endswith("/step"):
            assert tensor.is_pinned(), name
    for name, parameter in named[0].items():
        assert parameter.equal(named[1][name]), name


@pytest.mark.skipif(DEVICE != "cuda", reason="measures the memory of a CUDA device")
def test_only_pieces_are_on_the_gpu() -> None:
    weight = Parameter(torch.ones(8192, 8192, device=DEVICE, dtype=torch.bfloat16))
    optimizer = Optimizer({"weight": weight}, {}, is_offloaded=True)
    for _ in range(2):
        optimizer.learn(weight.float().sum())
        norms = optimizer.norms()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        optimizer.step(norms, policy_rate=0.01)
        assert torch.cuda.max_memory_allocated() - before <= offload.slot_bytes(weight.numel())
