"""An optimizer in host memory takes the same steps as one on the device, and has the same checkpoints."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from tests.training.updates import new_model, new_trainer, recipe_of, some_samples
from turnwise.config import parse_settings, read_recipe
from turnwise.models.device_memory import check_host_memory
from turnwise.training.update import offload
from turnwise.training.update.optimizer import Optimizer

both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 256 numbers: tensors of a test have several, and the last one is shorter."""
    monkeypatch.setattr(offload, "PIECE", 256)


def parameters(dtype: torch.dtype) -> dict[str, Parameter]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"matrix": (37, 29), "bias": (29,), "unused": (5,)}
    return {
        name: Parameter(torch.randn(*shape, generator=generator).to(dtype)) for name, shape in shapes.items()
    }


class Pair:
    """The same parameters under two optimizers."""

    def __init__(self, dtype: torch.dtype, *is_offloaded: bool) -> None:
        self.named = [parameters(dtype) for _ in is_offloaded]
        self.optimizers = [
            Optimizer(named, {}, weight_decay=0.1, is_offloaded=offloaded)
            for named, offloaded in zip(self.named, is_offloaded, strict=True)
        ]

    def step(self, number: int) -> None:
        factors = torch.randn(37, 29, generator=torch.Generator().manual_seed(number))
        for named, optimizer in zip(self.named, self.optimizers, strict=True):
            for _ in range(2):  # micro-batches
                loss = (named["matrix"] * factors).float().square().mean() + named["bias"].float().sum()
                optimizer.learn(loss)
            optimizer.step(optimizer.norms(), policy_rate=0.05)

    def check(self) -> None:
        one, two = (
            {name: tensor.clone() for name, tensor in each.tensors().items()} for each in self.optimizers
        )
        assert_same(one, two)
        assert_same(dict(self.named[0]), dict(self.named[1]))


def assert_same(one: dict[str, Any], two: dict[str, Any]) -> None:
    assert one.keys() == two.keys()
    assert [name for name, tensor in one.items() if not tensor.equal(two[name])] == []


@both_dtypes
def test_steps_from_host_memory_are_bit_identical(dtype: torch.dtype) -> None:
    pair = Pair(dtype, False, True)
    before = pair.named[1]["matrix"].detach().clone()
    for number in range(4):
        pair.step(number)
        pair.check()
    assert not pair.named[1]["matrix"].equal(before)
    assert "unused/exp_avg" not in pair.optimizers[1].tensors(), "it never had a gradient"
    assert float(pair.optimizers[1].tensors()["matrix/step"]) == 4


@both_dtypes
@pytest.mark.parametrize("is_offloaded", [False, True])
def test_a_checkpoint_is_restored_with_or_without_host_memory(dtype: torch.dtype, is_offloaded: bool) -> None:
    saved, other = Pair(dtype, is_offloaded), Pair(dtype, not is_offloaded)
    for number in range(2):
        saved.step(number)
        other.step(number + 7)
    stored: dict[str, Tensor] = {
        name: tensor.clone() for name, tensor in saved.optimizers[0].tensors().items()
    }
    with torch.no_grad():
        for name, parameter in other.named[0].items():
            parameter.copy_(saved.named[0][name])
    other.optimizers[0].restore(stored)
    for pair in (saved, other):
        pair.step(3)
    assert_same(saved.optimizers[0].tensors(), other.optimizers[0].tensors())
    assert_same(dict(saved.named[0]), dict(other.named[0]))


def test_an_update_of_a_policy_is_the_same() -> None:
    found = []
    for is_offloaded in (False, True):
        recipe = recipe_of(policy={"tuning": "full"}, optimizer={"offload": is_offloaded})
        trainer = new_trainer(recipe, model=new_model().to(torch.bfloat16))
        assert not trainer.update(some_samples(), step=0).skipped
        found.append({name: tensor.clone() for name, tensor in trainer.tensors().items()})
    assert_same(*found)


def test_a_host_without_enough_memory_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"optimizer\.offload is true: 1000000000\.0 GB of host memory"):
        check_host_memory(10**18)


@pytest.mark.parametrize("strategy", ["fsdp2", "zero3"])
def test_a_sharded_optimizer_stays_on_its_gpus(strategy: str) -> None:
    keys = [f"hardware.strategy={strategy}", "policy.tuning=full", "optimizer.offload=true"]
    with pytest.raises(ValueError, match=r"optimizer\.offload is true, but hardware\.strategy is"):
        read_recipe(None, parse_settings(keys))
