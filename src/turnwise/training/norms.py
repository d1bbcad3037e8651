"""Takes a model, gives its RMS norms one kernel each: transformers takes eight, and more back."""

from typing import Any

import torch
from torch import Tensor, nn

EPSILONS = ("variance_epsilon", "eps")
"""What models call it."""
MAX_GAP = 2.0
"""Of two results, in units of their type's precision: the order of roundings is another."""


class FusedNorm(nn.Module):
    """What a model's own norm becomes, with its parameters: made by `fuse_norms` alone."""

    weight: nn.Parameter
    epsilon: float

    def forward(self, hidden: Tensor) -> Tensor:
        return nn.functional.rms_norm(hidden, self.weight.shape, self.weight, self.epsilon)


@torch.no_grad()
def fuse_norms(model: nn.Module) -> int:
    """Gives how many; norms that compute something else, as Gemma's do, stay as they are."""
    num_fused = 0
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and (epsilon := _epsilon(module)) is not None:
            num_fused += _fuse(module, epsilon)
    return num_fused


def _epsilon(module: Any) -> float | None:
    found = next((getattr(module, name) for name in EPSILONS if hasattr(module, name)), None)
    return found if isinstance(found, float) and set(dict(module.named_parameters())) == {"weight"} else None


def _fuse(module: nn.Module, epsilon: float) -> bool:
    weight = module.get_parameter("weight")
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn((4, weight.numel()), generator=generator).to(weight)
    expected = module(hidden)
    found = nn.functional.rms_norm(hidden, weight.shape, weight, epsilon)
    gap = (found.float() - expected.float()).abs() / expected.float().abs().clamp(min=1e-6)
    if found.dtype != expected.dtype or not gap.max() <= MAX_GAP * torch.finfo(weight.dtype).eps:
        return False
    module.epsilon = epsilon  # type: ignore[assignment]  # a module takes any attribute
    module.__class__ = FusedNorm
    return True
