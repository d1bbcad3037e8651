"""Fused norms: equal up to rounding, with the same parameters; norms of other kinds are left alone."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GemmaConfig, GemmaForCausalLM

from tests.engines.models import SIZES, llama, qwen3
from tests.training.policies import LORA, relative_gaps
from turnwise.training.kernels.norms import FusedNorm, fuse_norms
from turnwise.training.policy.policy import Policy

NUM_LAYERS = SIZES["num_hidden_layers"]
FUSED: dict[str, tuple[Callable[[], Any], int]] = {
    "qwen3": (qwen3, 4 * NUM_LAYERS + 1),
    "llama": (llama, 2 * NUM_LAYERS + 1),
}
"""Models with their number of norms: two per layer and a final one; qwen3 also norms queries and keys."""
models = pytest.mark.parametrize("name", FUSED)


def gemma() -> Any:
    torch.manual_seed(3)
    return GemmaForCausalLM(GemmaConfig(**SIZES)).eval()


def norms_of(model: Any) -> list[Any]:
    return [module for module in model.modules() if type(module).__name__.endswith("Norm")]


def uneven(make: Callable[[], Any], dtype: torch.dtype = torch.float32) -> Any:
    """Norms start as all ones, which would hide a lost weight."""
    model = make()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for norm in norms_of(model):
            norm.weight.add_(0.5 * torch.randn(norm.weight.shape, generator=generator))
    return model.to(dtype)


def pair(name: str, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """A model, and the same with its norms fused."""
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


@models
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_every_norm_is_fused_and_as_near_to_the_formula_as_the_original(
    name: str, dtype: torch.dtype
) -> None:
    own, fused = pair(name, dtype)
    generator = torch.Generator().manual_seed(0)
    assert len(norms_of(own)) == FUSED[name][1]
    for theirs, ours in zip(norms_of(own), norms_of(fused), strict=True):
        assert type(ours) is FusedNorm
        size = theirs.weight.numel()
        # also small values, where the epsilon matters
        scales = torch.tensor([1.0, 30.0, 1e-3])[:, None, None]
        hidden, weights = (
            (scales * torch.randn((3, 9, size), generator=generator)).to(dtype) for _ in range(2)
        )
        expected = exact(theirs, hidden, weights)
        found = run(ours, hidden, weights)
        assert {tensor.dtype for tensor in found} == {dtype}
        pairs = zip(
            relative_gaps(found, expected), relative_gaps(run(theirs, hidden, weights), expected), strict=True
        )
        assert all(gap <= 2 * max(their_gap, torch.finfo(dtype).eps) for gap, their_gap in pairs)


@models
def test_a_model_has_the_same_logits_gradients_and_parameters(name: str) -> None:
    own, fused = uneven(FUSED[name][0]), uneven(FUSED[name][0])
    before, keys = dict(fused.named_parameters()), list(fused.state_dict())
    assert fuse_norms(fused) == FUSED[name][1]
    after = dict(fused.named_parameters())
    assert list(after) == list(before)
    assert all(after[path] is tensor for path, tensor in before.items())
    assert list(fused.state_dict()) == keys
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
    """An RMS norm with one property changed."""

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
        if self.change == "a subtracted mean":
            hidden = hidden - hidden.mean(-1, keepdim=True)
        out = nn.functional.rms_norm(hidden, (16,), self.weight, 1e-6)
        return out.double() if self.change == "another type" else out


@pytest.mark.parametrize(
    "change", ["none", "no epsilon", "a bias", "another epsilon", "a subtracted mean", "another type"]
)
def test_only_a_plain_rms_norm_is_fused(change: str) -> None:
    assert fuse_norms(nn.Sequential(OddRMSNorm(change))) == (change == "none")


def test_other_weights_can_replace_those_of_a_fused_norm() -> None:
    own, fused = pair("qwen3")
    ids = torch.arange(20)[None]
    swapped = {path: 3 - parameter for path, parameter in own.named_parameters() if "norm" in path}
    expected = torch.func.functional_call(own, swapped, (ids,)).logits
    found = torch.func.functional_call(fused, swapped, (ids,)).logits
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()
    assert (found - fused(ids).logits).abs().max() > 0.1


def test_norms_are_not_fused_on_a_cpu() -> None:
    """Launching a kernel costs little there."""
    policy = Policy(qwen3(), LORA)
    assert not any(isinstance(module, FusedNorm) for module in policy.model.modules())
