"""A LoRA linear layer computed in the model's own type, base and adapter in three products.

peft computes the adapter's part in fp32, the adapter's own dtype: it keeps an fp32 copy of every input for
the backward pass, and its products do not use tensor cores. Here that part is computed in the model's dtype,
as engines do. Only the adapter itself, on which steps are taken, and its gradients are fp32.
"""

from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn


class AdaptedLinear(Linear):
    """peft's layer with a faster forward pass if one adapter is active, unmerged and without dropout."""

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        output: Tensor
        if args or kwargs or not self._is_plain:
            output = super().forward(x, *args, **kwargs)
            return output
        base, [name] = self.get_base_layer(), self.active_adapters
        down_RD, up_OR = self.lora_A[name].weight, self.lora_B[name].weight
        output = _Adapted.apply(x, base.weight, base.bias, down_RD, up_OR, self.scaling[name])  # type: ignore[no-untyped-call]
        return output

    @property
    def _is_plain(self) -> bool:
        names = self.active_adapters
        if self.disable_adapters or self.merged or self.lora_variant or len(names) != 1:
            return False
        # the active adapter may be on other layers only
        return names[0] in self.lora_A and isinstance(self.lora_dropout[names[0]], nn.Identity)


def use_products(layers: list[Any]) -> None:
    """Use `AdaptedLinear` for plain LoRA layers; others, such as those on a quantised base, stay as is."""
    for layer in layers:
        if type(layer) is Linear:
            layer.__class__ = AdaptedLinear


class _Adapted(torch.autograd.Function):
    """Compute x·Wᵀ + b + s·(x·Aᵀ)·Bᵀ; the base is frozen."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight_OD: Tensor,
        bias_O: Tensor | None,
        down_RD: Tensor,
        up_OR: Tensor,
        scale: float,
    ) -> Tensor:
        x_ND = x.flatten(0, -2)
        down, up = down_RD.to(x.dtype), (up_OR * scale).to(x.dtype)
        hidden_NR = x_ND @ down.T
        out_NO = nn.functional.linear(x_ND, weight_OD, bias_O).addmm_(hidden_NR, up.T)
        ctx.save_for_backward(x_ND, weight_OD, hidden_NR, down, up)
        ctx.scale, ctx.exact = scale, up_OR.dtype
        return out_NO.view(*x.shape[:-1], out_NO.shape[-1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_ND, weight_OD, hidden_NR, down, up = ctx.saved_tensors
        grad_NO = grads[0].flatten(0, -2)
        grad_NR = grad_NO @ up
        grad_x, grad_down, grad_up = None, None, None
        if ctx.needs_input_grad[0]:
            grad_x_ND = (grad_NO @ weight_OD).addmm_(grad_NR, down)
            grad_x = grad_x_ND.view(*grads[0].shape[:-1], x_ND.shape[-1])
        if ctx.needs_input_grad[3]:
            grad_down = _product(grad_NR.T, x_ND, ctx.exact)
        if ctx.needs_input_grad[4]:
            grad_up = _product(grad_NO.T, hidden_NR, ctx.exact).mul_(ctx.scale)
        return grad_x, None, None, grad_down, grad_up, None


def _product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the product in `dtype`; on CUDA it is not rounded first, because sums are in fp32."""
    if left.device.type == "cuda" and left.dtype != dtype == torch.float32:
        return torch.mm(left, right, out_dtype=dtype)
    return (left @ right).to(dtype)
