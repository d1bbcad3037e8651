"""Norms in one kernel: the same up to rounding, on the same parameters; other kinds are left alone."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GemmaConfig, GemmaForCausalLM

from tests.engines.models import SIZES, llama, qwen3
from tests.training.policies import LORA
from turnwise.training.kernels.norms import FusedNorm, fuse_norms
from turnwise.training.model.policy import Policy

NUM_LAYERS = SIZES["num_hidden_layers"]
FUSED: dict[str, tuple[Callable[[], Any], int]] = {
    "qwen3": (qwen3, 4 * NUM_LAYERS + 1),
    "llama": (llama, 2 * NUM_LAYERS + 1),
}
"""Each with its norms: two a layer and one at the end; qwen3 has two more a layer, of queries and keys."""
models = pytest.mark.parametrize("name", FUSED)
types = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)


def gemma() -> Any:
    torch.manual_seed(3)
    return GemmaForCausalLM(GemmaConfig(**SIZES)).eval()


def norms_of(model: Any) -> list[Any]:
    return [module for module in model.modules() if type(module).__name__.endswith("Norm")]


def uneven(make: Callable[[], Any], dtype: torch.dtype = torch.float32) -> Any:
    """Norms start as all ones, which would hide a weight that is lost."""
    model = make()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for norm in norms_of(model):
            norm.weight.add_(0.5 * torch.randn(norm.weight.shape, generator=generator))
    return model.to(dtype)


def pair(name: str, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """One model as it comes, and the same with its norms fused."""
    make, count = FUSED[name]
    own = uneven(make, dtype)
    fused = copy.deepcopy(own)
    assert fuse_norms(fused) == count
    return own, fused


def run(norm: Any, hidden: Tensor, weights: Tensor) -> list[Tensor]:
    """Output and gradients of input and weight."""
    given = hidden.clone().requires_grad_()
    out = norm(given)
    return [out.detach(), *torch.autograd.grad((out * weights).sum(), [given, norm.weight])]


def exact(norm: Any, hidden: Tensor, weights: Tensor) -> list[Tensor]:
    """By the formula, in fp64."""
    weight = norm.weight.detach().double().requires_grad_()
    given = hidden.double().requires_grad_()
    out = weight * given / (given.square().mean(-1, keepdim=True) + SIZES.get("rms_norm_eps", 1e-6)).sqrt()
    return [out.detach(), *torch.autograd.grad((out * weights.double()).sum(), [given, weight])]


def gaps(found: list[Tensor], expected: list[Tensor]) -> list[float]:
    """Relative to the largest entry of each."""
    return [
        ((one.double() - other).abs().max() / other.abs().max()).item()
        for one, other in zip(found, expected, strict=True)
    ]


@models
@types
def test_every_norm_is_fused_and_as_near_to_the_formula_as_its_own(name: str, dtype: torch.dtype) -> None:
    own, fused = pair(name, dtype)
    generator = torch.Generator().manual_seed(0)
    assert len(norms_of(own)) == FUSED[name][1]
    for theirs, ours in zip(norms_of(own), norms_of(fused), strict=True):
        assert type(ours) is FusedNorm
        size = theirs.weight.numel()
        # small too, where the epsilon counts
        scales = torch.tensor([1.0, 30.0, 1e-3])[:, None, None]
        hidden, weights = (
            (scales * torch.randn((3, 9, size), generator=generator)).to(dtype) for _ in range(2)
        )
        expected = exact(theirs, hidden, weights)
        found = run(ours, hidden, weights)
        assert {tensor.dtype for tensor in found} == {dtype}
        allowed = [max(gap, torch.finfo(dtype).eps) for gap in gaps(run(theirs, hidden, weights), expected)]
        assert all(gap <= 2 * most for gap, most in zip(gaps(found, expected), allowed, strict=True))


@models
def test_a_model_gives_the_same_and_so_do_its_gradients(name: str) -> None:
    own, fused = pair(name)
    ids = torch.arange(40).view(2, 20)
    logits = [model(ids).logits for model in (own, fused)]
    assert (logits[0] - logits[1]).abs().max() < 1e-5 * logits[0].abs().max()
    for logit in logits:
        logit.float().log_softmax(-1)[..., 7].sum().backward()
    for theirs, ours in zip(own.parameters(), fused.parameters(), strict=True):
        assert (theirs.grad - ours.grad).abs().max() < 1e-4 * theirs.grad.abs().max()


def test_norms_that_compute_something_else_are_left_alone() -> None:
    """Gemma multiplies by 1 + its weight."""
    model = uneven(gemma)
    ids = torch.arange(20)[None]
    before, kinds = model(ids).logits, [type(module) for module in model.modules()]
    assert fuse_norms(model) == 0
    assert [type(module) for module in model.modules()] == kinds
    assert model(ids).logits.equal(before)


class OddRMSNorm(nn.Module):
    """As a model's own, with one thing changed."""

    def __init__(self, change: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(0.5, 2, 16))
        self.eps: Any = None if change == "no epsilon" else 1e-6
        if change == "a bias":
            self.bias = nn.Parameter(torch.zeros(16))
        self.change = change

    def forward(self, hidden: Tensor) -> Tensor:
        if self.change == "another epsilon":
            return nn.functional.rms_norm(hidden, (16,), self.weight, 1e-2)
        if self.change == "a mean taken away":
            hidden = hidden - hidden.mean(-1, keepdim=True)
        out = nn.functional.rms_norm(hidden, (16,), self.weight, 1e-6)
        return out.double() if self.change == "another type" else out


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ("none", 1),
        ("no epsilon", 0),
        ("a bias", 0),
        ("another epsilon", 0),
        ("a mean taken away", 0),
        ("another type", 0),
    ],
)
def test_a_norm_is_fused_only_if_nothing_about_it_is_odd(change: str, count: int) -> None:
    assert fuse_norms(nn.Sequential(OddRMSNorm(change))) == count


@models
def test_parameters_keep_their_names_and_are_the_same_ones(name: str) -> None:
    model = FUSED[name][0]()
    before, keys = dict(model.named_parameters()), list(model.state_dict())
    fuse_norms(model)
    after = dict(model.named_parameters())
    assert list(after) == list(before)
    assert all(after[path] is tensor for path, tensor in before.items())
    assert list(model.state_dict()) == keys


def test_other_weights_can_stand_in_for_a_fused_norms_own() -> None:
    own, fused = pair("qwen3")
    ids = torch.arange(20)[None]
    swapped = {path: 3 - parameter for path, parameter in own.named_parameters() if "norm" in path}
    expected = torch.func.functional_call(own, swapped, (ids,)).logits
    found = torch.func.functional_call(fused, swapped, (ids,)).logits
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    assert (found - fused(ids).logits).abs().max() > 0.1


def test_what_is_learned_takes_effect_and_fusing_again_changes_nothing() -> None:
    _, fused = pair("qwen3")
    norm = norms_of(fused)[0]
    hidden = torch.ones(1, norm.weight.numel())
    before = norm(hidden)
    with torch.no_grad():
        norm.weight.mul_(2)
    assert norm(hidden).equal(2 * before)
    assert fuse_norms(fused) == 0
    assert norm(hidden).equal(2 * before)


def test_on_a_cpu_norms_stay_the_models_own() -> None:
    """A launch costs little there."""
    policy = Policy(qwen3(), LORA)
    assert not any(isinstance(module, FusedNorm) for module in policy.model.modules())
