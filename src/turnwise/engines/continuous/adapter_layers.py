"""Apply a LoRA adapter beside weights that cannot be changed, such as a quantised base."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from turnwise.engines.adapter_checks import check_adapter
from turnwise.engines.continuous.weights import changed_by
from turnwise.types.protocols import Adapter


class AdapterLayers:
    """Forward hooks that add x·Aᵀ·Bᵀ · alpha / rank to the output of each module the adapter changes."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._hooks: list[Any] = []

    def check(self, adapter: Adapter) -> None:
        """Raise a ValueError that names the first part of the adapter that does not fit the model."""
        linear = (item for item in self._model.named_modules() if isinstance(item[1], torch.nn.Linear))
        # Not the shape of the weight itself: a quantised weight is packed.
        check_adapter(
            adapter, {f"{name}.weight": (module.out_features, module.in_features) for name, module in linear}
        )

    def take(self, adapter: Adapter) -> None:
        """Replace the adapter in use. Its tensors are copied: the trainer goes on updating them."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for name in changed_by(adapter):
            path = name.removesuffix(".weight")
            module = self._model.get_submodule(path)
            place = next(module.parameters()).device
            down_RD, up_DR = (
                adapter.tensors[f"{path}.{part}"].detach().to(place, copy=True)
                for part in ("lora_A", "lora_B")
            )
            adding = _adding(down_RD, up_DR, adapter.alpha / adapter.rank)
            self._hooks.append(module.register_forward_hook(adding))


def _adding(down_RD: Tensor, up_DR: Tensor, scale: float) -> Callable[..., Tensor]:
    def add(module: torch.nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        # same order and dtypes as in the trainer's adapters, so that both round alike
        more = linear(linear(args[0].to(down_RD.dtype), down_RD), up_DR) * scale
        return output + more.to(output.dtype)

    return add
