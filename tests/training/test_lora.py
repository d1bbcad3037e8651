"""Adapted linear layers with fewer kernels compute what peft computes, in values and in gradients."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import Embedding, Linear
from torch import Tensor, nn

from tests.engines.models import qwen3
from tests.training.policies import LORA, gradients, largest_gap, noisy_policy, relative_gaps
from tests.training.samples import family
from turnwise.training.kernels.lora import AdaptedLinear, use_products
from turnwise.training.policy.policy import Policy

IN, OUT, RANK = 24, 40, 4
SHAPES = {"tokens": (7,), "rows of tokens": (3, 5), "one token": (1, 1)}
"""The shapes of inputs, without the last dimension."""

two_adapters = pytest.mark.filterwarnings("ignore:Already found a `peft_config`")


def peft_layer(
    *,
    bias: bool = False,
    dtype: torch.dtype = torch.float64,
    dropout: float = 0.0,
    names: tuple[str, ...] = ("one",),
) -> Any:
    """Adapters have random weights too: a B of zero would hide A."""
    torch.manual_seed(0)
    model: Any = nn.ModuleDict({"linear": nn.Linear(IN, OUT, bias=bias, dtype=dtype)})
    for name in names:
        config = LoraConfig(r=RANK, lora_alpha=6, lora_dropout=dropout, target_modules=["linear"])
        inject_adapter_in_model(config, model, adapter_name=name)
    layer = model["linear"]
    assert type(layer) is Linear
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    for part in (*layer.lora_A.values(), *layer.lora_B.values()):
        part.to(exact)
        nn.init.normal_(part.weight, std=0.3)
    return layer.eval()


def with_products(layer: Any) -> Any:
    ours = copy.deepcopy(layer)
    use_products([ours])
    assert type(ours) is AdaptedLinear
    return ours


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def run(layer: Any, x: Tensor) -> list[Tensor]:
    """The output, and gradients of input, A and B."""
    given = x.clone().requires_grad_()
    layer.zero_grad()
    out = layer(given)
    weigh(out).backward()
    assert given.grad is not None
    return [out.detach(), given.grad, layer.lora_A["one"].weight.grad, layer.lora_B["one"].weight.grad]


def weigh(out: Tensor) -> Tensor:
    """A loss in which every entry has another weight."""
    places = torch.arange(1, out.numel() + 1, dtype=torch.float64).view(out.shape)
    return (out * torch.cos(places).to(out.dtype)).sum()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_output_and_gradients_are_those_of_peft(shape: tuple[int, ...], bias: bool) -> None:
    layer = peft_layer(bias=bias)
    x = drawn(*shape, IN)
    theirs = run(layer, x)
    assert all((tensor != 0).any() for tensor in theirs)
    assert max(relative_gaps(run(with_products(layer), x), theirs)) < 1e-12


@pytest.mark.parametrize("is_frozen", ["lora_A", "lora_B"])
def test_a_frozen_half_of_an_adapter_gets_no_gradient_and_the_other_keeps_its_own(is_frozen: str) -> None:
    layer = with_products(peft_layer())
    _, _, grad_down, grad_up = run(layer, drawn(7, IN))
    getattr(layer, is_frozen).requires_grad_(False)
    layer.zero_grad()
    weigh(layer(drawn(7, IN))).backward()
    expected = {"lora_A": grad_down, "lora_B": grad_up}
    for name, tensor in expected.items():
        found = getattr(layer, name)["one"].weight.grad
        assert found is None if name == is_frozen else found.equal(tensor)


def test_the_base_gets_no_gradient_and_keeps_its_values() -> None:
    layer = with_products(peft_layer(bias=True))
    base = layer.get_base_layer()
    base.requires_grad_(True)  # even then
    before = base.weight.detach().clone()
    run(layer, drawn(3, 5, IN))
    assert base.weight.grad is None
    assert base.bias.grad is None
    assert base.weight.equal(before)


def test_adapters_of_a_model_in_half_precision_have_gradients_as_exact_as_those_of_peft() -> None:
    """Compared with fp64; peft multiplies in fp32, so ours may differ by one more rounding."""
    layer = peft_layer(dtype=torch.bfloat16, bias=True)
    x = drawn(64, IN, dtype=torch.bfloat16)
    exact = run(copy.deepcopy(layer).double(), x.double())
    theirs, ours = run(layer, x), run(with_products(layer), x)
    assert [tensor.dtype for tensor in ours] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]
    assert [tensor.dtype for tensor in ours] == [tensor.dtype for tensor in theirs]
    epsilon = torch.finfo(torch.bfloat16).eps
    for our_gap, their_gap in zip(relative_gaps(ours, exact), relative_gaps(theirs, exact), strict=True):
        assert our_gap < 2 * max(their_gap, epsilon)


@pytest.mark.parametrize("is_training", [False, True])
def test_dropout_is_left_to_peft(is_training: bool) -> None:
    layer = peft_layer(dropout=0.5).train(is_training)
    ours, x = with_products(layer), drawn(7, IN)
    torch.manual_seed(4)
    theirs = run(layer, x)
    torch.manual_seed(4)
    assert all(one.equal(other) for one, other in zip(run(ours, x), theirs, strict=True))
    is_drawn = not run(ours, x)[0].equal(theirs[0])
    assert is_drawn == is_training


def test_an_adapter_that_is_off_inactive_or_merged_is_not_added() -> None:
    layer = with_products(peft_layer(bias=True))
    x = drawn(3, 5, IN)
    adapted, base = layer(x), layer.get_base_layer()(x)
    assert not base.equal(adapted)
    layer.enable_adapters(False)
    assert layer(x).equal(base)
    layer.enable_adapters(True)
    assert layer(x).equal(adapted)
    layer._active_adapter = ["two"]  # an adapter of other layers only
    assert layer(x).equal(base)
    layer._active_adapter = ["one"]
    layer.merge()
    assert (layer(x) - adapted).abs().max() < 1e-12


@two_adapters
def test_several_adapters_are_added_and_rows_may_name_theirs() -> None:
    layer = peft_layer(names=("one", "two"))
    x, ours = drawn(2, 5, IN), with_products(layer)
    for names in (["one"], ["two"], ["one", "two"]):
        layer.set_adapter(names)
        ours.set_adapter(names)
        assert (ours(x) - layer(x)).abs().max() < 1e-12
    assert not ours(x).equal(layer.get_base_layer()(x))
    by_row = ["two", "__base__"]
    assert ours(x, adapter_names=by_row).equal(layer(x, adapter_names=by_row))
    assert not ours(x, adapter_names=by_row).equal(ours(x))


def test_other_kinds_of_layers_are_left_alone() -> None:
    model: Any = nn.ModuleDict({"table": nn.Embedding(9, 8), "linear": nn.Linear(8, 8)})
    inject_adapter_in_model(LoraConfig(r=RANK, target_modules=["table", "linear"]), model)

    class Own(Linear):  # type: ignore[misc]  # peft has no annotations for it
        """A linear layer of another library."""

    model["own"] = copy.deepcopy(model["linear"])
    model["own"].__class__ = Own
    use_products(list(model.values()))
    assert [type(module) for module in model.values()] == [Embedding, AdaptedLinear, Own]


@pytest.mark.parametrize(("is_fused", "kind"), [(False, Linear), (True, AdaptedLinear)])
def test_adapted_layers_are_fused_unless_that_is_off(is_fused: bool, kind: type) -> None:
    policy = Policy(qwen3(), LORA, is_fused=is_fused)
    adapted = [type(module) for module in policy.model.modules() if isinstance(module, Linear)]
    assert adapted == [kind] * (3 * 7)  # three layers of q, k, v, o, gate, up, down


@pytest.mark.parametrize(
    ("make", "close"), [(lambda: qwen3().double(), 2e-6), (qwen3, 1e-4)], ids=["fp64", "fp32"]
)  # norms are in fp32 in both
def test_a_policy_scores_and_learns_the_same_with_both_kernels(make: Callable[[], Any], close: float) -> None:
    plain, fused = (noisy_policy(make, is_fused=is_fused) for is_fused in (False, True))
    scores = [model.score(family()).logprobs_BT for model in (plain, fused)]
    assert (scores[0] - scores[1]).abs().max() < close
    assert largest_gap(gradients(plain, [family()]), gradients(fused, [family()])) < close
