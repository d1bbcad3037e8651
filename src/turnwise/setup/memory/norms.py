"""A norm on the meta device that allocates the same tensors as the fused norm of a GPU.

torch fuses the norm only on real devices; on the meta device it would run as eight separate kernels.
"""

from typing import Any

import torch
from torch import Tensor, nn


class PlannedNorm(nn.Module):
    """Replaces `turnwise.training.kernels.norms.FusedNorm` on the meta device."""

    weight: nn.Parameter
    epsilon: float

    def forward(self, hidden: Tensor) -> Tensor:
        out: Tensor = _PlannedNormFunction.apply(hidden, self.weight)  # type: ignore[no-untyped-call]
        return out


class _PlannedNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        scale = hidden.new_empty((*hidden.shape[:-1], 1), dtype=torch.float32)
        ctx.save_for_backward(hidden, weight, scale)
        return torch.empty_like(hidden)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, _ = ctx.saved_tensors
        grad_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        return torch.empty_like(hidden), grad_weight
