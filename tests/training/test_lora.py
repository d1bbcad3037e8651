"""Adapted layers by products: what peft computes, in the model's type, an adapter's gradients in its own."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import Embedding, Linear
from torch import Tensor, nn

from tests.engines.models import qwen3
from tests.training.drawn import family
from tests.training.policies import LORA, apart, gradients, made
from turnwise.training.kernels.lora import AdaptedLinear, use_products
from turnwise.training.model.policy import Policy

IN, OUT, RANK = 24, 40, 4
SHAPES = {"tokens": (7,), "rows of tokens": (3, 5), "one token": (1, 1)}
"""Of inputs, without tensor last dimension."""

several = pytest.mark.filterwarnings("ignore:Already found a `peft_config`")  # which is what these tests want


def peft_layer(
    *,
    bias: bool = False,
    dtype: torch.dtype = torch.float64,
    dropout: float = 0.0,
    names: tuple[str, ...] = ("one",),
) -> Any:
    """Of random weights, adapters too: peft's B of zero would hide what A does."""
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
    places = torch.arange(1, out.numel() + 1, dtype=torch.float64).view(out.shape)
    (out * torch.cos(places).to(out.dtype)).sum().backward()
    assert given.grad is not None
    return [out.detach(), given.grad, layer.lora_A["one"].weight.grad, layer.lora_B["one"].weight.grad]


def gaps(found: list[Tensor], exact: list[Tensor]) -> list[float]:
    """Relative to the largest entry of each."""
    assert [tensor.shape for tensor in found] == [tensor.shape for tensor in exact]
    return [
        ((one.double() - other).abs().max() / other.abs().max()).item()
        for one, other in zip(found, exact, strict=True)
    ]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_output_and_gradients_are_those_of_peft(shape: tuple[int, ...], bias: bool) -> None:
    layer = peft_layer(bias=bias)
    x = drawn(*shape, IN)
    theirs = run(layer, x)
    assert all((tensor != 0).any() for tensor in theirs)
    assert max(gaps(run(with_products(layer), x), theirs)) < 1e-12


@pytest.mark.parametrize("is_frozen", ["lora_A", "lora_B"])
def test_what_needs_no_gradient_gets_none_and_the_rest_is_the_same(is_frozen: str) -> None:
    layer = with_products(peft_layer())
    _, _, grad_down, grad_up = run(layer, drawn(7, IN))
    getattr(layer, is_frozen).requires_grad_(False)
    layer.zero_grad()
    layer(drawn(7, IN)).mul(torch.cos(torch.arange(1, 7 * OUT + 1).double().view(7, OUT))).sum().backward()
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


def test_a_half_precise_model_has_exact_gradients_of_its_adapter() -> None:
    """Beside fp64 on the same numbers; peft multiplies in fp32, so ours may be off by a rounding more."""
    layer = peft_layer(dtype=torch.bfloat16, bias=True)
    x = drawn(64, IN, dtype=torch.bfloat16)
    exact = run(copy.deepcopy(layer).double(), x.double())
    theirs, ours = run(layer, x), run(with_products(layer), x)
    assert [tensor.dtype for tensor in ours] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]
    assert [tensor.dtype for tensor in ours] == [tensor.dtype for tensor in theirs]
    epsilon = torch.finfo(torch.bfloat16).eps
    for our_gap, their_gap in zip(gaps(ours, exact), gaps(theirs, exact), strict=True):
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


def test_a_layer_without_its_adapter_is_its_base() -> None:
    layer = with_products(peft_layer(bias=True))
    x = drawn(3, 5, IN)
    adapted = layer(x)
    layer.enable_adapters(False)
    assert layer(x).equal(layer.get_base_layer()(x))
    layer.enable_adapters(True)
    assert layer(x).equal(adapted)
    assert not layer.get_base_layer()(x).equal(adapted)


@several
def test_two_adapters_at_once_are_both_added() -> None:
    layer = peft_layer(names=("one", "two"))
    x = drawn(7, IN)
    ours = with_products(layer)
    for names in (["one"], ["two"], ["one", "two"]):
        layer.set_adapter(names)
        ours.set_adapter(names)
        assert (ours(x) - layer(x)).abs().max() < 1e-12
    assert not ours(x).equal(layer.get_base_layer()(x))


def test_an_adapter_that_is_on_other_layers_alone_adds_nothing() -> None:
    layer = with_products(peft_layer())
    x = drawn(7, IN)
    layer._active_adapter = ["two"]
    assert layer(x).equal(layer.get_base_layer()(x))


def test_a_merged_adapter_is_not_added_again() -> None:
    layer = with_products(peft_layer())
    x = drawn(7, IN)
    unmerged = layer(x)
    layer.merge()
    assert (layer(x) - unmerged).abs().max() < 1e-12


@several
def test_rows_may_each_name_their_adapter() -> None:
    layer = peft_layer(names=("one", "two"))
    x, names = drawn(2, 5, IN), ["two", "__base__"]
    ours = with_products(layer)
    assert ours(x, adapter_names=names).equal(layer(x, adapter_names=names))
    assert not ours(x, adapter_names=names).equal(ours(x))


def test_a_scale_of_zero_is_the_base_with_no_gradient() -> None:
    layer = with_products(peft_layer())
    layer.scaling["one"] = 0.0
    x = drawn(7, IN)
    out, grad_x, grad_down, grad_up = run(layer, x)
    given = x.clone().requires_grad_()
    places = torch.arange(1, 7 * OUT + 1, dtype=torch.float64).view(7, OUT)
    base = layer.get_base_layer()(given)
    (base * torch.cos(places)).sum().backward()
    assert given.grad is not None
    assert (out - base).abs().max() < 1e-12
    assert (grad_x - given.grad).abs().max() < 1e-12
    assert (grad_down == 0).all()
    assert (grad_up == 0).all()


@pytest.mark.parametrize("shape", [(0,), (1, 0), (0, 3)])
def test_no_tokens_are_no_trouble(shape: tuple[int, ...]) -> None:
    layer = with_products(peft_layer())
    x = drawn(*shape, IN).requires_grad_()
    out = layer(x)
    assert out.shape == (*shape, OUT)
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert (layer.lora_A["one"].weight.grad == 0).all()


def test_what_is_no_linear_layer_stays_as_it_is() -> None:
    model: Any = nn.ModuleDict({"table": nn.Embedding(9, 8), "linear": nn.Linear(8, 8)})
    inject_adapter_in_model(LoraConfig(r=RANK, target_modules=["table", "linear"]), model)

    class Own(Linear):  # type: ignore[misc]  # peft has no annotations for it
        """A kind of linear layer that someone else made."""

    model["own"] = copy.deepcopy(model["linear"])
    model["own"].__class__ = Own
    use_products(list(model.values()))
    assert [type(module) for module in model.values()] == [Embedding, AdaptedLinear, Own]


@pytest.mark.parametrize(("is_fused", "kind"), [(False, Linear), (True, AdaptedLinear)])
def test_adapted_layers_are_fused_unless_that_is_off(is_fused: bool, kind: type) -> None:
    policy = Policy(qwen3(), LORA, is_fused=is_fused)
    adapted = [type(module) for module in policy.model.modules() if isinstance(module, Linear)]
    assert adapted == [kind] * (3 * 7)  # of three layers: q, k, v, o, gate, up, down


@pytest.mark.parametrize(
    ("make", "close"), [(lambda: qwen3().double(), 2e-6), (qwen3, 1e-4)], ids=["fp64", "fp32"]
)  # norms are in fp32 all the same
def test_a_policy_scores_and_learns_the_same_either_way(make: Callable[[], Any], close: float) -> None:
    plain, fused = (made(make, is_fused=is_fused) for is_fused in (False, True))
    scores = [model.score(family()).logprobs_BT for model in (plain, fused)]
    assert (scores[0] - scores[1]).abs().max() < close
    assert apart(gradients(plain, [family()]), gradients(fused, [family()])) < close
