"""Takes a model, gives its layers kernels that torch fuses: a fraction of the launches, the same numbers.

A short update is over before a GPU has been told of all its kernels, so that these launches are what it takes
its time for. All layers share what is compiled for one, for any number of tokens; attention stays as it is
(`attention.APART`), between what is compiled before it and after it.
"""

from typing import Any

import torch
from torch import Tensor, nn

from turnwise.training import attention


def compile_layers(model: Any, layers: list[nn.Module]) -> None:
    attention.register_apart()
    model.set_attn_implementation(attention.APART)
    model.get_input_embeddings().register_forward_hook(_with_gradient)
    for layer in layers:
        layer.compile(dynamic=True)


def _with_gradient(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
    """The first layer's input as the others', or it would be compiled for by itself."""
    return output.requires_grad_() if torch.is_grad_enabled() and not output.requires_grad else output
