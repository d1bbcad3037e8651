"""Keys and values of a prefix, computed once for all micro-batches, and their gradients."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

KeysValues = tuple[Tensor, Tensor]
"""The keys and values of one layer, each [1, key heads, tokens, dim]."""


class Keeper:
    """Collects each layer's keys and values in the forward pass.

    Recomputing a layer in the backward pass calls its keeper again; once emptied, the keeper ignores that.
    """

    def __init__(self) -> None:
        self._kept: dict[nn.Module, KeysValues] | None = {}

    def keep(self, layer: nn.Module, key: Tensor, value: Tensor) -> None:
        if self._kept is not None:
            assert layer not in self._kept, "a layer runs once in a forward pass"
            self._kept[layer] = key, value

    def empty(self) -> dict[nn.Module, KeysValues]:
        kept, self._kept = self._kept, None
        assert kept, "the model ran, and its attention is ours"
        return kept


class Prefix:
    """Keys and values of the tokens before all others of a pass, by layer.

    Micro-batches attend to leaves, detached from the graph that computed them. A micro-batch's backward pass
    ends at the leaves and accumulates gradients there; `backward` propagates these through that graph, once
    for all micro-batches.

    output: the prefix's last hidden states, if `backward` must give them a gradient of 0, as with sharding.
    """

    def __init__(self, made: Mapping[nn.Module, KeysValues], output: Tensor | None = None) -> None:
        self._output = output
        self._made = [tensor for pair in made.values() for tensor in pair]
        self._leaves = [_leaf(pair) for pair in self._made]
        self.layers: dict[nn.Module, KeysValues] = dict(
            zip(made, zip(self._leaves[::2], self._leaves[1::2], strict=True), strict=True)
        )

    def backward(self) -> None:
        """Propagate the leaves' gradients and free the graph; do nothing if no leaf has a gradient."""
        pairs = [
            (output, leaf.grad.to(output.dtype))
            for output, leaf in zip(self._made, self._leaves, strict=True)
            if leaf.grad is not None
        ]
        if pairs and self._output is not None:
            pairs.append((self._output, torch.zeros_like(self._output)))
        if pairs:
            torch.autograd.backward([output for output, _ in pairs], [grad for _, grad in pairs])


def _leaf(made: Tensor) -> Tensor:
    # at least fp32: in bf16 the gradient of a late micro-batch would be rounded away in the sum of the others
    exact = torch.promote_types(made.dtype, torch.float32) if made.requires_grad else made.dtype
    return made.detach().to(exact).requires_grad_(made.requires_grad)
