"""Fused RMS norms: one kernel in place of the eight that transformers launches."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

EPSILONS = ("variance_epsilon", "eps")
"""The attribute names that models use for epsilon."""
MAX_GAP = 2.0
"""The largest relative difference of two results, in units of their dtype's epsilon: roundings differ."""


class FusedNorm(nn.Module):
    """The class that `fuse_norms` gives to a model's own norms, which keep their parameters."""

    weight: nn.Parameter
    epsilon: float

    def forward(self, hidden: Tensor) -> Tensor:
        return nn.functional.rms_norm(hidden, self.weight.shape, self.weight, self.epsilon)


def fuse_norms(model: nn.Module, kind: type[nn.Module] = FusedNorm) -> int:
    """Fuse the model's RMS norms and return how many; other formulas, such as Gemma's, stay unchanged.

    kind: the class they get, which reads `weight` and `epsilon`; a model on the meta device needs another.
    """
    norms = list(_norms(model))
    for module, epsilon in norms:
        module.epsilon = epsilon
        module.__class__ = kind
    return len(norms)


def _norms(model: nn.Module) -> Iterator[tuple[Any, float]]:
    """Yield each plain RMS norm with its epsilon."""
    for module in model.modules():
        epsilon = _epsilon(module) if type(module).__name__.endswith("RMSNorm") else None
        if epsilon is not None and _is_plain(module, epsilon):
            yield module, epsilon


def _epsilon(module: Any) -> float | None:
    epsilon = next((getattr(module, name) for name in EPSILONS if hasattr(module, name)), None)
    is_plain = isinstance(epsilon, float) and set(dict(module.named_parameters())) == {"weight"}
    return epsilon if is_plain else None


@torch.no_grad()
def _is_plain(module: nn.Module, epsilon: float) -> bool:
    """Compare with `rms_norm` on a copy with random weights: the module's own may be on meta, or all 1."""
    probe = copy.deepcopy(module).to_empty(device="cpu")
    weight = probe.get_parameter("weight")
    generator = torch.Generator().manual_seed(0)
    weight.copy_(torch.rand(weight.shape, generator=generator) + 0.5)
    hidden = torch.randn((4, *weight.shape), generator=generator).to(weight.dtype)
    expected = probe(hidden)
    actual = nn.functional.rms_norm(hidden, weight.shape, weight, epsilon)
    gap = (actual.float() - expected.float()).abs() / expected.float().abs().clamp(min=1e-6)
    return actual.dtype == expected.dtype and bool(gap.max() <= MAX_GAP * torch.finfo(weight.dtype).eps)
